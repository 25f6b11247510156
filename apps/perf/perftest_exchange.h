// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "apps/common/background.h"
#include "apps/common/tcp.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::apps::perf {

/// What perftest's programs tell each other of a queue pair.
struct PerftestDestination {
  std::uint32_t outstanding_reads = 0;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  stack::IpAddress gid;
};

/// What the end that measured bandwidth tells the other.
struct PerftestReport {
  std::uint64_t size = 0;
  std::uint64_t iterations = 0;
  double peak = 0;          ///< MiB/s
  double average = 0;       ///< MiB/s
  double message_rate = 0;  ///< million a second
};

/// The out-of-band exchange of perftest's programs, from version 5.70 on, over a TCP connection.
/// The client always speaks first, then the server with a message of the same kind.
class PerftestExchange {
 public:
  /// `background` goes on while this waits; not owned.
  PerftestExchange(TcpConnection connection, bool client, Background& background)
      : connection_(std::move(connection)), client_(client), background_(background) {}

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
  [[nodiscard]] Expected<void> say_done();

  /// False once the peer has gone.
  [[nodiscard]] bool peer_closed() { return connection_.peer_closed(); }

 private:
  /// Sends `own` and receives as much, in the order of the role.
  [[nodiscard]] Expected<std::string> swap(std::string_view own);

  TcpConnection connection_;
  bool client_;
  Background& background_;
};

}  // namespace rockhopper::apps::perf
