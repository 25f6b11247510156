// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "stack/error.h"

namespace rockhopper::roce {

class CongestionControl;

enum class CongestionAlgorithm : std::uint8_t {
  none,
  dcqcn,
  swift,
  custom,  ///< of the application: CongestionConfig::make
};
[[nodiscard]] std::string_view to_string(CongestionAlgorithm algorithm);

/// DCQCN's reaction point. Names are mlx5's where it has the parameter; defaults are those of the
/// paper (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, sections
/// 3 and 5.2).
struct DcqcnParameters {
  /// Bits/s: the line's; without limit from here on. 0: the link's as far as the engine knows it
  /// (EngineConfig::line_rate), else kUnknownLineRate.
  std::uint64_t rpg_max_rate = 0;
  std::uint64_t rpg_min_rate = 10'000'000;    ///< bits/s
  std::uint64_t rpg_ai_rate = 40'000'000;     ///< bits/s: R_AI, additive increase
  std::uint64_t rpg_hai_rate = 400'000'000;   ///< bits/s: R_HAI, hyper increase
  std::uint64_t rpg_time_reset_ns = 55'000;   ///< T, between increases by time
  std::uint64_t rpg_byte_reset = 10'000'000;  ///< B, bytes between increases by bytes
  std::uint32_t rpg_threshold = 5;            ///< F, increases of fast recovery
  double dce_tcp_g = 1.0 / 256;               ///< g, weight of a CNP in alpha; above 0, to 1
  std::uint64_t dce_tcp_rtt_ns = 55'000;      ///< K, between decreases of alpha
  double initial_alpha_value = 1;             ///< at the first CNP; above 0, to 1
  std::uint64_t rate_reduce_monitor_period_ns = 4'000;  ///< between decreases of the rate at least
  /// A CNP that comes so long after a NAK is of the loss and does not count: some RNICs
  /// send one with each NAK.
  std::uint64_t nak_cnp_period_ns = 0;
};

/// Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
/// Datacenter", SIGCOMM 2020, section 3). The delay is the round trip of a packet and its
/// acknowledgement, as one: fabric and host are not told apart.
struct SwiftParameters {
  std::uint64_t base_target_delay_ns = 25'000;
  std::uint64_t fs_range_ns =
      50'000;                ///< flow scaling: most that a small window adds to the target
  double fs_min_cwnd = 0.1;  ///< packets: the window from which on that is all of it
  double fs_max_cwnd = 100;  ///< packets: the window from which on that is nothing
  double ai = 1;             ///< packets a round trip, additive increase
  double beta = 0.8;         ///< multiplicative decrease by the delay above the target
  double max_mdf = 0.5;      ///< most that one decrease takes; 0 to below 1
  double min_cwnd = 0.01;    ///< packets; below 1 they are paced
  double max_cwnd = 256;     ///< packets, and the first window
  std::uint32_t retx_reset_threshold =
      5;  ///< timeouts in a row after which the window is the least
};

/// Bits/s of a link that says nothing.
inline constexpr std::uint64_t kUnknownLineRate = 100'000'000'000;

struct CongestionConfig {
  CongestionAlgorithm algorithm = CongestionAlgorithm::none;
  DcqcnParameters dcqcn{};
  SwiftParameters swift{};
  /// With `custom`: makes the congestion control of one queue pair, or of one stream of a DC
  /// initiator. Called once for each, in set_congestion_control() and create_dci().
  std::function<std::unique_ptr<CongestionControl>()> make{};
};

/// The parameters with the line's rate where they leave that open; `line_rate` in bits/s, 0: not
/// known.
[[nodiscard]] DcqcnParameters at_line_rate(DcqcnParameters parameters, std::uint64_t line_rate);

[[nodiscard]] Expected<void> check_congestion_config(const CongestionConfig& config);

/// Bits per second that mean: no limit.
inline constexpr std::uint64_t kUnlimited = 0;

/// How fast one queue pair may send: one implementation for each algorithm, also outside of the
/// library (examples/congestion_control.cc). Told what happens, with the time, which does not go
/// back; asked before sending. Has no timers: what would happen between two calls is worked off in
/// the next. Must not allocate in these calls, which are of the data path. Times are nanoseconds,
/// bytes count as on the wire (docs/congestion-control.md).
class CongestionControl {
 public:
  CongestionControl() = default;
  CongestionControl(const CongestionControl&) = delete;
  CongestionControl& operator=(const CongestionControl&) = delete;
  virtual ~CongestionControl() = default;

  /// As new.
  virtual void reset() = 0;
  /// Packets of `bytes` in all have been handed out, new ones or again.
  virtual void on_sent(std::uint64_t /*bytes*/, std::uint64_t /*now_ns*/) {}
  /// The peer has seen packets marked.
  virtual void on_cnp(std::uint64_t /*now_ns*/) {}
  /// `packets` more are acknowledged; `rtt_ns` is a packet's round trip, 0 if none could be
  /// measured.
  virtual void on_ack(std::uint32_t /*packets*/, std::uint64_t /*rtt_ns*/,
                      std::uint64_t /*now_ns*/) {}
  /// A NAK says that packets were lost, or the retransmission timer has expired.
  virtual void on_loss(bool /*by_timeout*/, std::uint64_t /*now_ns*/) {}

  /// Bits per second, or kUnlimited.
  [[nodiscard]] virtual std::uint64_t rate(std::uint64_t now_ns) = 0;
  /// Request packets that may be unacknowledged, at least 1. UINT32_MAX: not limited here.
  [[nodiscard]] virtual std::uint32_t window_packets() const { return UINT32_MAX; }

  /// Its packets are to be ECN-capable.
  [[nodiscard]] virtual bool uses_ecn() const { return false; }
  /// It needs round trips: each request packet is to ask for an acknowledgement. RC and DC only.
  [[nodiscard]] virtual bool uses_acks() const { return false; }
};

/// Returns null for `none`.
[[nodiscard]] std::unique_ptr<CongestionControl> make_congestion_control(
    const CongestionConfig& config);

}  // namespace rockhopper::roce
