// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memif.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "stack/memif_message.h"
#include "stack/runtime_directory.h"

namespace rockhopper::stack {
namespace {

constexpr std::size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;

/// A descriptor of this process.
bool is_own(const std::string& inode) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(*entry, gone) == "socket:[" + inode + "]") return true;
  }
  return false;
}

/// Another process listens at the path, as proc(5) says. What has been bound by another name for
/// the same file is not found.
bool is_served_by_another(const std::string& path) {
  std::ifstream table("/proc/net/unix");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number, references, protocol, flags, type, state, inode, name;
    fields >> number >> references >> protocol >> flags >> type >> state >> inode >> name;
    constexpr std::string_view kListens = "00010000";
    if (name == path && flags == kListens && !is_own(inode)) return true;
  }
  return false;
}

}  // namespace

Expected<std::string> memif_socket(const MemifConfig& config) {
  if (!config.socket.empty()) return config.socket;
  ROCKHOPPER_TRY(auto directory, runtime_directory());
  return directory + "/memif.sock";
}

Expected<void> check_memif_socket(const MemifConfig& config) {
  ROCKHOPPER_TRY(const auto path, memif_socket(config));
  const bool serves = config.role == MemifRole::server;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  if (!std::filesystem::is_directory(folder, error)) {
    const bool forbidden = error.value() == EACCES;
    // A client waits for its server, which may make the folder too.
    if (!serves && !forbidden) return {};
    return fail(ErrorCode::not_found, "memif socket {}: {}", path,
                forbidden ? "no permission" : "there is no such folder");
  }
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    const bool missing = errno == ENOENT;
    if (missing && (!serves || ::access(folder.c_str(), W_OK | X_OK) == 0)) return {};
    return fail(ErrorCode::invalid_state, "memif socket {}: no permission", path);
  }
  if (!S_ISSOCK(status.st_mode)) {
    return fail(ErrorCode::invalid_state, "memif socket {}: there is something else of that name",
                path);
  }
  if (::access(path.c_str(), W_OK) != 0) {
    return fail(ErrorCode::invalid_state, "memif socket {}: no permission", path);
  }
  if (serves && path.starts_with('/') && is_served_by_another(path)) {
    return fail(ErrorCode::busy, "memif socket {}: another program serves it", path);
  }
  return {};
}

Expected<std::string> memif_devargs(const MemifConfig& config) {
  ROCKHOPPER_TRY(auto path, memif_socket(config));
  if (path.size() > kSocketPathMax || path.find(',') != std::string::npos) {
    return fail(ErrorCode::invalid_argument,
                "memif socket {}: at most {} bytes, and no comma, are possible", path,
                kSocketPathMax);
  }
  if (config.ring_size_log2 == 0 || config.ring_size_log2 > memif::kRingSizeLog2Max) {
    return fail(ErrorCode::invalid_argument, "memif ring size 2^{}: 2^1 to 2^{} are possible",
                config.ring_size_log2, memif::kRingSizeLog2Max);
  }
  const char* role = config.role == MemifRole::server ? "server" : "client";
  std::string devargs = fmt::format("{},role={},socket={},socket-abstract=no,id={},rsize={}",
                                    config.device, role, path, config.id, config.ring_size_log2);
  if (config.buffer_size != 0) devargs += fmt::format(",bsize={}", config.buffer_size);
  return devargs;
}

}  // namespace rockhopper::stack
