// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <span>
#include <vector>

#include <rte_mbuf.h>

namespace rockhopper::apps::ethernet_switch {

/// A bounded first-in first-out queue that owns its packets. Single-threaded.
class EgressQueue {
 public:
  /// Holds at least one packet.
  explicit EgressQueue(std::size_t capacity) : packets_(std::max<std::size_t>(capacity, 1)) {}
  EgressQueue(EgressQueue&&) = default;
  EgressQueue& operator=(EgressQueue&&) = delete;
  ~EgressQueue() { (void)clear(); }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool full() const { return size_ == packets_.size(); }

  /// Takes ownership. Requires that the queue is not full.
  void push(rte_mbuf* packet) {
    assert(!full());
    packets_[(head_ + size_++) % packets_.size()] = packet;
  }
  /// The oldest packets, in order: as many as lie in one piece, so at least one if there is any.
  [[nodiscard]] std::span<rte_mbuf*> front() {
    return {packets_.data() + head_, std::min(size_, packets_.size() - head_)};
  }
  /// Gives up the oldest `count` packets, which have another owner now.
  void pop(std::size_t count) {
    assert(count <= size_);
    head_ = (head_ + count) % packets_.size();
    size_ -= count;
  }
  /// Frees all packets and returns their number.
  std::size_t clear() {
    const std::size_t count = size_;
    while (size_ > 0) {
      const std::span<rte_mbuf*> piece = front();
      rte_pktmbuf_free_bulk(piece.data(), static_cast<unsigned>(piece.size()));
      pop(piece.size());
    }
    return count;
  }

 private:
  std::vector<rte_mbuf*> packets_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace rockhopper::apps::ethernet_switch
