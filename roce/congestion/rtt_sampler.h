// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "roce/wire/psn.h"

namespace rockhopper::roce {

/// When the packets of a window were sent, for their round trips. A packet that was sent again
/// gives none, as nobody knows which of the two was acknowledged (Karn and Partridge, 1987).
class RttSampler {
 public:
  /// Remembers `packets` at most; 0: none.
  explicit RttSampler(std::uint32_t packets)
      : sent_(packets == 0 ? 0 : std::bit_ceil(std::size_t{packets})) {}

  void clear() { sent_.assign(sent_.size(), {}); }
  void on_sent(wire::Psn psn, bool again, std::uint64_t now_ns) {
    if (!sent_.empty()) sent_[psn.value & (sent_.size() - 1)] = {psn.value, again ? 0 : now_ns};
  }
  /// 0: not known. Each packet is asked for once.
  [[nodiscard]] std::uint64_t on_acknowledged(wire::Psn psn, std::uint64_t now_ns) {
    if (sent_.empty()) return 0;
    Sent& sent = sent_[psn.value & (sent_.size() - 1)];
    if (sent.psn != psn.value || sent.time_ns == 0 || now_ns <= sent.time_ns) return 0;
    const std::uint64_t rtt_ns = now_ns - sent.time_ns;
    sent.time_ns = 0;
    return rtt_ns;
  }

 private:
  struct Sent {
    std::uint32_t psn = 0;
    std::uint64_t time_ns = 0;  ///< 0: none
  };
  std::vector<Sent> sent_;
};

}  // namespace rockhopper::roce
