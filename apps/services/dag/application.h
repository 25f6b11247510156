// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

#include "apps/services/dag/status.h"

namespace rockhopper::dag {

/// A client as a server knows it; never used again.
enum class ClientId : std::uint32_t {};

/// What a client asks of whatever a server does besides keeping records. The application says what
/// it means.
struct ApplicationRequest {
  std::uint8_t code = 0;
  std::uint64_t value = 0;
  std::span<const std::byte> name;  ///< up to kKeyMax bytes, none perhaps; during the call only
  std::span<const std::byte> data;  ///< up to kCreateDataMax bytes; during the call only
};
struct ApplicationResponse {
  Status status = Status::invalid;  ///< not `canceled`, which tells something else
  std::uint64_t value = 0;          ///< for the client, whatever the status
};

/// Something of its own that a server does for its clients, with memory that each of them may READ
/// and do atomics in (ServerConfig::application_memory). Called from the server's progress() and
/// remove_client(); must not call the server.
class ServerApplication {
 public:
  ServerApplication() = default;
  ServerApplication(const ServerApplication&) = delete;
  ServerApplication& operator=(const ServerApplication&) = delete;
  virtual ~ServerApplication() = default;
  /// Once for each request, however often it is sent.
  [[nodiscard]] virtual ApplicationResponse on_request(ClientId client,
                                                       const ApplicationRequest& request,
                                                       std::uint64_t now_ns) = 0;
  /// It was fenced, or removed: nothing of it is executed any more, its locks are free, and its
  /// arenas without a group rest.
  virtual void on_client_gone(ClientId client, std::uint64_t now_ns) = 0;
};

}  // namespace rockhopper::dag
