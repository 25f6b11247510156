// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>

namespace rockhopper::stack {

/// A bounded queue that owns its packets.
class OutputQueue {
 public:
  static constexpr std::size_t kCapacity = 256;

  OutputQueue() = default;
  ~OutputQueue() {
    while (!empty()) {
      rte_pktmbuf_free(pop());
    }
  }
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;

  [[nodiscard]] bool empty() const { return head_ == tail_; }
  /// Takes the packet if there is room.
  [[nodiscard]] bool push(rte_mbuf* packet) {
    if (tail_ - head_ == kCapacity) return false;
    packets_[tail_++ % kCapacity] = packet;
    return true;
  }
  /// Requires that the queue is not empty.
  [[nodiscard]] rte_mbuf* pop() { return packets_[head_++ % kCapacity]; }

 private:
  std::array<rte_mbuf*, kCapacity> packets_{};
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace rockhopper::stack
