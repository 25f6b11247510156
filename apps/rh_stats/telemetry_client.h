// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/common/tcp.h"
#include "stack/error.h"

namespace rockhopper::apps::stats {

/// Keeps the order in which the program gives its counters.
using Json = nlohmann::ordered_json;

/// A connection to the telemetry socket of a running DPDK program (DPDK's "telemetry v2": JSON over
/// SOCK_SEQPACKET). Every call ends within two seconds.
class TelemetryClient {
 public:
  /// Error `not_found`: nobody listens on that socket any more.
  [[nodiscard]] static Expected<TelemetryClient> connect(const std::string& path);

  [[nodiscard]] std::int64_t pid() const { return pid_; }
  [[nodiscard]] const std::string& dpdk_version() const { return version_; }

  /// The answer to a command such as "/ethdev/list"; null for a command that the program has not.
  [[nodiscard]] Expected<Json> ask(std::string_view command);

 private:
  explicit TelemetryClient(FileDescriptor socket) : socket_(std::move(socket)) {}
  [[nodiscard]] Expected<Json> receive();

  FileDescriptor socket_;
  std::int64_t pid_ = 0;
  std::string version_;
  std::size_t answer_max_ = 0;
};

}  // namespace rockhopper::apps::stats
