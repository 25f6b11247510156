// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/rh_stats/sockets.h"
#include "apps/rh_stats/telemetry_client.h"
#include "stack/error.h"

namespace rockhopper::apps::stats {

/// The counters of a group in the program's order.
using Counters = std::vector<std::pair<std::string, std::uint64_t>>;

/// All counters at one time, by group.
struct Snapshot {
  std::uint64_t time_ns = 0;  ///< CLOCK_MONOTONIC
  std::map<std::string, Counters> groups;
};

/// A running DPDK program that has Rockhopper's counters, or has not.
class Program {
 public:
  [[nodiscard]] static Expected<Program> connect(const TelemetrySocket& socket);

  [[nodiscard]] const TelemetrySocket& socket() const { return socket_; }
  [[nodiscard]] std::int64_t pid() const { return client_.pid(); }
  [[nodiscard]] const std::string& dpdk_version() const { return client_.dpdk_version(); }
  /// As the kernel has it; empty when the process is in another PID namespace.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Names of its groups of counters; none for a DPDK program of somebody else.
  [[nodiscard]] const std::vector<std::string>& groups() const { return groups_; }

  /// Reads the groups that are in `wanted`, or all if that is empty. A group that has gone since
  /// connect() is left out.
  [[nodiscard]] Expected<Snapshot> read(const std::vector<std::string>& wanted);

 private:
  Program(TelemetrySocket socket, TelemetryClient client)
      : socket_(std::move(socket)), client_(std::move(client)) {}
  [[nodiscard]] Expected<Counters> read_group(const std::string& group);

  TelemetrySocket socket_;
  TelemetryClient client_;
  std::string name_;
  std::vector<std::string> groups_;
};

}  // namespace rockhopper::apps::stats
