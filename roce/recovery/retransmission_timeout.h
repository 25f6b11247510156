// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/wire/psn.h"

namespace rockhopper::roce {

struct AdaptiveTimeoutParameters {
  /// The timer is never shorter, whatever the round trips are: nanoseconds, above 0.
  std::uint64_t min_ns = 250'000;
};

/// How long a requester waits for progress, from the round trips that it sees (RFC 6298 with its
/// gains). It times one packet at a time, as PSNs of READs lie far apart, and none that was sent
/// again: nobody knows which of the two was acknowledged (Karn and Partridge, 1987). The queue
/// pair's own timeout is the upper limit and the first value. Each expiry doubles
/// the time until there is a new round trip; only those count as a retry that come at the upper
/// limit, so that a peer out of reach is given as much time as with the fixed timer.
class RetransmissionTimeout {
 public:
  explicit RetransmissionTimeout(const AdaptiveTimeoutParameters& parameters)
      : parameters_(parameters) {}

  [[nodiscard]] const AdaptiveTimeoutParameters& parameters() const { return parameters_; }
  void reset();
  /// The packet that begins at `psn` leaves, for the first time or `again`.
  void on_sent(wire::Psn psn, bool again, std::uint64_t now_ns);
  /// `psn` is the last that is acknowledged now: this is progress.
  void on_acknowledged(wire::Psn psn, std::uint64_t now_ns);

  /// What to wait, `limit_ns` at most.
  [[nodiscard]] std::uint64_t value_ns(std::uint64_t limit_ns) const;
  /// The time that value_ns(limit_ns) gave has passed without progress. True: this is a retry.
  [[nodiscard]] bool on_expired(std::uint64_t limit_ns);

  [[nodiscard]] std::uint64_t smoothed_rtt_ns() const { return smoothed_ns_; }  ///< 0: none yet
  [[nodiscard]] std::uint64_t rtt_variation_ns() const { return variation_ns_; }

 private:
  void take_sample(std::uint64_t rtt_ns);

  AdaptiveTimeoutParameters parameters_;
  bool timing_ = false;
  wire::Psn timed_;                 ///< the packet that is timed,
  std::uint64_t timed_at_ns_ = 0;   ///< and when it was sent
  std::uint64_t smoothed_ns_ = 0;   ///< SRTT
  std::uint64_t variation_ns_ = 0;  ///< RTTVAR
  std::uint32_t expiries_ = 0;      ///< since the last round trip
};

}  // namespace rockhopper::roce
