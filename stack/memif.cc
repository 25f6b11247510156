// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memif.h"

#include <sys/un.h>

#include "stack/memif_message.h"
#include "stack/runtime_directory.h"

namespace rockhopper::stack {
namespace {

constexpr std::size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

Expected<std::string> memif_socket(const MemifConfig& config) {
  if (!config.socket.empty()) return config.socket;
  ROCKHOPPER_TRY(auto directory, runtime_directory());
  return directory + "/memif.sock";
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
