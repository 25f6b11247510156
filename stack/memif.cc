// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memif.h"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "stack/runtime_directory.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint8_t kRingSizeLog2Max = 14;

/// Removes the socket of a server that is no more; one that answers stays, as servers of several
/// links share it within a process and another process's is not ours to remove.
void remove_dead_socket(const std::string& path, const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd, generic, sizeof(address)) != 0 && errno == ECONNREFUSED) unlink(path.c_str());
  close(fd);
}

}  // namespace

Expected<std::string> memif_devargs(const MemifConfig& config) {
  std::string path = config.socket;
  if (path.empty()) {
    auto directory = runtime_directory();
    if (!directory) return tl::make_unexpected(directory.error());
    path = *directory + "/memif.sock";
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path) || path.find(',') != std::string::npos) {
    return fail(ErrorCode::invalid_argument,
                "memif socket {}: at most {} bytes, and no comma, are possible", path,
                sizeof(address.sun_path) - 1);
  }
  if (config.ring_size_log2 == 0 || config.ring_size_log2 > kRingSizeLog2Max) {
    return fail(ErrorCode::invalid_argument, "memif ring size 2^{}: 2^1 to 2^{} are possible",
                config.ring_size_log2, kRingSizeLog2Max);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const bool server = config.role == MemifRole::server;
  if (server) remove_dead_socket(path, address);
  std::string devargs =
      fmt::format("{},role={},socket={},socket-abstract=no,id={},rsize={}", config.device,
                  server ? "server" : "client", path, config.id, config.ring_size_log2);
  if (config.buffer_size != 0) devargs += fmt::format(",bsize={}", config.buffer_size);
  return devargs;
}

}  // namespace rockhopper::stack
