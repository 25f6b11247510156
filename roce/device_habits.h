// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::roce {

// What the specification leaves open and devices do in different ways (docs/hardware.md).

/// For what a notification point has one clock: a CNP is sent at most every so often for each queue
/// pair, to each host, or by the whole port.
enum class CnpScope : std::uint8_t { queue_pair, destination, port };

/// A notification point: what is done about packets that arrive with "congestion experienced". The
/// defaults of class and priority are mlx5's.
struct CnpConfig {
  bool send = true;           ///< answer marked packets by CNPs
  std::uint8_t dscp = 48;     ///< 0 to 63
  std::uint8_t priority = 6;  ///< 0 to 7: of the tag, where the port trusts that
  CnpScope scope = CnpScope::queue_pair;
  std::uint64_t min_time_between_ns = 50'000;  ///< within a scope
};

/// End-to-end flow control of reliable connections (IBTA vol. 1, 9.7.7.2).
struct EndToEndCredits {
  bool obey = true;   ///< requests wait for the peer's receive requests; else they draw RNR NAKs
  bool count = true;  ///< the peer is told of our receive requests; else that it is not limited
};

/// Waits for an answer that a requester has in place of a queue pair's `timeout`: before the first
/// retry, before the second, and so on, with as many retries. Some RNICs grow theirs like that.
class RetransmissionSchedule {
 public:
  static constexpr std::size_t kRetriesMax = 15;

  /// Up to kRetriesMax waits in nanoseconds, each above 0; the rest is not taken.
  constexpr void set(std::span<const std::uint64_t> waits_ns) {
    count_ = 0;
    for (const std::uint64_t wait_ns : waits_ns) {
      if (count_ < kRetriesMax && wait_ns > 0) waits_ns_[count_++] = wait_ns;
    }
  }
  /// The queue pair's own timeout and retry_cnt serve.
  [[nodiscard]] constexpr bool empty() const { return count_ == 0; }
  [[nodiscard]] constexpr std::uint8_t retries() const { return count_; }
  /// The wait that ends with one of the last `retries_left` retries, or with failure where there is
  /// none. Requires that it is not empty.
  [[nodiscard]] constexpr std::uint64_t wait_ns(std::uint8_t retries_left) const {
    return waits_ns_[retries_left == 0 ? count_ - 1u : count_ - unsigned{retries_left}];
  }

 private:
  std::array<std::uint64_t, kRetriesMax> waits_ns_{};
  std::uint8_t count_ = 0;
};

}  // namespace rockhopper::roce
