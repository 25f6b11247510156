// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/rh_perf/perftest_carrier.h"
#include "apps/rh_perf/perftest_destination.h"
#include "stack/error.h"

namespace rockhopper::apps::perf {

/// What the end that measured bandwidth tells the other.
struct PerftestReport {
  std::uint64_t size = 0;
  std::uint64_t iterations = 0;
  double peak = 0;          ///< MiB/s
  double average = 0;       ///< MiB/s
  double message_rate = 0;  ///< million a second
};

/// What perftest's programs, from version 5.70 on, tell each other about a run. The client always
/// speaks first, then the server with a message of the same kind.
class PerftestExchange {
 public:
  /// `carrier` is not owned.
  PerftestExchange(PerftestCarrier& carrier, bool client) : carrier_(carrier), client_(client) {}

  struct Greeting {
    std::string version;             ///< of the peer
    std::uint32_t buffer_bytes = 0;  ///< the larger of both ends' smallest buffers
    std::uint32_t path_mtu = 0;      ///< the smaller one
  };
  /// Versions, buffer sizes, path MTU.
  [[nodiscard]] Expected<Greeting> greet(std::uint32_t path_mtu);
  /// One of many times, as the programs also wait for each other by this message. Without limit.
  [[nodiscard]] Expected<PerftestDestination> shake_hands(const PerftestDestination& own);
  [[nodiscard]] Expected<PerftestReport> swap_reports(const PerftestReport& own);
  /// The last message, which is not answered.
  [[nodiscard]] Expected<void> say_done() { return carrier_.say_done(); }

  /// True once the peer has gone.
  [[nodiscard]] bool peer_closed() { return carrier_.peer_closed(); }

 private:
  /// Sends `own` and receives as much, in the order of the role.
  [[nodiscard]] Expected<std::string> swap(std::string_view own);

  PerftestCarrier& carrier_;
  bool client_;
};

}  // namespace rockhopper::apps::perf
