// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/rc_channel.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

/// How a run ends.
enum class Ending : std::uint8_t {
  complete,   ///< every request succeeds
  fatal,      ///< the last request of the first channel is one that must fail
  blackhole,  ///< from some moment on nothing arrives any more
  reconnect,  ///< the same, but then the queue pairs are reset and connected once more
  revoke,     ///< in the end a window goes away while it is used; needs `windows`
};

/// A family of runs; everything else is drawn from the seed.
struct RcProfile {
  const char* name = "";
  NetworkFaults faults;
  Ending ending = Ending::complete;
  bool lossless = false;       ///< nothing is ever sent twice, and the counters must show it
  bool late_receives = false;  ///< receives often come after the messages
  bool resolve_neighbours = false;
  bool long_messages = false;
  bool short_script = false;     ///< few requests on one connection
  bool short_messages = false;   ///< most in a packet that can be made and taken in bursts
  unsigned srq_percent = 25;     ///< of the nodes have an SRQ
  bool xrc = false;              ///< extended reliable connections, each with several SRQs
  bool windows = false;          ///< RC with memory windows of both types
  bool scarce_mbufs = false;     ///< the pools are too small for what could be under way
  std::uint8_t timeout_min = 7;  ///< local ACK timeout code, above the network's round trip
  // Of both ends.
  roce::RecoveryAlgorithm recovery = roce::RecoveryAlgorithm::go_back_n;
  bool adaptive_timeout = false;
  std::uint32_t max_held_packets = 1024;
  bool plain_bursts = true;
};

/// Sums over runs; shows that the hazards of a profile have been met.
struct RcTotals {
  std::uint64_t runs = 0;
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::uint64_t packets = 0;
  std::uint64_t retransmitted = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t out_of_sequence = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t implied_naks = 0;
  std::uint64_t rnr_naks = 0;
  std::uint64_t bad_icrc = 0;
  std::uint64_t lost = 0;
  std::uint64_t failed_connections = 0;
  std::uint64_t drains = 0;
  std::uint64_t limit_events = 0;  ///< of SRQs
  std::uint64_t no_mbuf = 0;
  std::uint64_t binds = 0;  ///< of windows
  std::uint64_t invalidations = 0;
  std::uint64_t stale_keys = 0;
  std::uint64_t refused = 0;   ///< requests through a window that had gone
  std::uint64_t held = 0;      ///< requests and responses
  std::uint64_t not_held = 0;  ///< for want of room
  std::uint64_t selective_acks = 0;
  std::uint64_t virtual_ns = 0;
  /// RoCEv2 packets that each node was to send in the last run.
  std::array<std::uint64_t, 2> last_offered{};
  std::array<std::uint64_t, 2> last_digest{};  ///< of all frames that it sent then

  friend bool operator==(const RcTotals&, const RcTotals&) = default;
};

[[nodiscard]] RcSettings draw_rc_settings(Rng& rng, const RcProfile& profile);
[[nodiscard]] NetworkConfig draw_network_config(std::uint64_t seed, Rng& rng,
                                                const RcProfile& profile, PoolSet& pools);

/// One run from one seed. Returns an empty text when all checks held, else what did not.
[[nodiscard]] std::string run_rc(std::uint64_t seed, const RcProfile& profile, PoolSet& pools,
                                 RcTotals& totals);

}  // namespace rockhopper::sim
