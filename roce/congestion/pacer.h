// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include "roce/congestion/congestion_control.h"
#include "roce/congestion/rtt_sampler.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce {

class QueuePair;

/// Holds a queue pair to what its congestion control allows. Queue pairs without one have no pacer.
///
/// Packets follow a schedule: each moves the time of the next by what it takes at the rate. A queue
/// pair whose time has not come leaves the line of those that send, and a timer puts it back; as
/// timers have ticks, it may then make up for kCatchUpNs. While the rate is unlimited there is no
/// timer and no schedule.
class Pacer {
 public:
  /// Two ticks of the engine's timers.
  static constexpr std::uint64_t kCatchUpNs = 2048;

  /// The queue pair outlives it. `control` is not null; `window_max` is how many packets may be
  /// unacknowledged at most.
  Pacer(QueuePair& qp, const CongestionConfig& config, std::unique_ptr<CongestionControl> control,
        std::uint32_t window_max);

  void reset();
  /// It is the queue pair's turn to send. While the rate is unlimited there is no schedule, so that
  /// what it was before holds nothing up later.
  void begin_turn(std::uint64_t now_ns);
  /// Returns how many packets of up to `packet_bytes` may go now; 0: not yet. Requires that
  /// begin_turn() was called at that time.
  [[nodiscard]] std::uint16_t allowance(std::uint32_t packet_bytes, std::uint64_t now_ns) const;
  /// Packets have gone that count, of `bytes` in all.
  void on_sent(std::uint64_t bytes, std::uint64_t now_ns);
  /// Nothing may go now, though there is something: the timer will put the queue pair back.
  void wait();

  /// Every other time.
  [[nodiscard]] bool take_turn() { return turn_ = !turn_; }

  [[nodiscard]] CongestionControl& control() { return *control_; }
  [[nodiscard]] const CongestionConfig& config() const { return config_; }
  [[nodiscard]] RttSampler& rtt() { return rtt_; }

 private:
  QueuePair& qp_;
  CongestionConfig config_;
  std::unique_ptr<CongestionControl> control_;
  RttSampler rtt_;
  std::uint64_t next_ns_ = 0;  ///< when the next packet is to go
  bool turn_ = false;
  stack::Timer timer_;
};

}  // namespace rockhopper::roce
