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

/// What there is of each counter of a group, in the program's order.
template <typename Value>
using Entries = std::vector<std::pair<std::string, Value>>;
using Counters = Entries<std::uint64_t>;
/// What the counters count, a line each; empty for one that the program says nothing of.
using Texts = Entries<std::string>;
using GroupTexts = std::map<std::string, Texts>;

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

  /// Asks the program what its counters count, by group, as read(). `unsupported` if it is of a
  /// version that does not say.
  [[nodiscard]] Expected<GroupTexts> describe(const std::vector<std::string>& wanted);

 private:
  Program(TelemetrySocket socket, TelemetryClient client)
      : socket_(std::move(socket)), client_(std::move(client)) {}
  /// Those of its groups that are in `wanted`, or all if that is empty.
  [[nodiscard]] std::vector<std::string> chosen(const std::vector<std::string>& wanted) const;
  /// The whole answer to a command about a group, which may come in parts.
  template <typename Value>
  [[nodiscard]] Expected<Entries<Value>> ask_about(const std::string& group, const char* command);

  TelemetrySocket socket_;
  TelemetryClient client_;
  std::string name_;
  std::vector<std::string> groups_;
};

}  // namespace rockhopper::apps::stats
