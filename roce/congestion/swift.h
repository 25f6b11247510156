// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/congestion/congestion_control.h"

namespace rockhopper::roce {

/// Swift (SIGCOMM 2020, algorithm 1 and section 3.5): a window of packets that grows while round
/// trips stay below a target delay, and shrinks by how far they are above it, once a round trip at
/// most. A window below one packet is a pause between packets.
class Swift final : public CongestionControl {
 public:
  explicit Swift(const SwiftParameters& parameters);

  void reset() override;
  void on_sent(std::uint64_t bytes, std::uint64_t now_ns) override;
  void on_ack(std::uint32_t packets, std::uint64_t rtt_ns, std::uint64_t now_ns) override;
  void on_loss(bool by_timeout, std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t rate(std::uint64_t now_ns) override;
  [[nodiscard]] std::uint32_t window_packets() const override;
  [[nodiscard]] bool uses_acks() const override { return true; }

  [[nodiscard]] double cwnd() const { return cwnd_; }
  /// What round trips are to stay below with the present window.
  [[nodiscard]] double target_delay_ns() const;

 private:
  [[nodiscard]] bool can_decrease(std::uint64_t now_ns) const;
  void set_cwnd(double packets);
  void decrease(double factor, std::uint64_t now_ns);

  SwiftParameters parameters_;
  double fs_alpha_ = 0;  ///< flow scaling adds fs_alpha / sqrt(cwnd) + fs_beta
  double fs_beta_ = 0;
  double cwnd_ = 1;
  std::uint64_t rtt_ns_ = 0;  ///< the last one measured
  std::uint64_t last_decrease_ns_ = 0;
  bool decreased_ = false;  ///< last_decrease_ns_ is one
  std::uint32_t timeouts_ = 0;
  std::uint64_t packet_bytes_ = 0;  ///< of the last packet sent, for the pause of small windows
};

}  // namespace rockhopper::roce
