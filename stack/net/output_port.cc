// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/net/output_port.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace rockhopper::stack::net {
namespace {

constexpr std::uint64_t kNsBitsPerByte = 8'000'000'000;

/// The queue that is served first of a set of them that is not empty.
std::size_t highest(std::uint32_t queues) {
  return static_cast<std::size_t>(std::bit_width(queues)) - 1;
}

}  // namespace

OutputPort::OutputPort(const OutputPortConfig& config) : config_(config), random_(config.seed) {}

OutputPort::~OutputPort() { (void)clear(); }

void OutputPort::append(std::size_t queue, rte_mbuf* packet) {
  queues_[queue].packets.push({packet, packet->pkt_len});
  queues_[queue].bytes += packet->pkt_len;
  occupied_ |= 1u << queue;
}

void OutputPort::push(rte_mbuf* packet, std::uint8_t priority) {
  assert(has_room(packet->pkt_len) && priority < kPriorities);
  if (config_.ecn.enabled()) mark_if_long(queues_[priority], packet);
  append(priority, packet);
  ++packets_;
  bytes_ += packet->pkt_len;
  longest_bytes_ = std::max(longest_bytes_, bytes_);
}

void OutputPort::push_control(rte_mbuf* packet) { append(kControl, packet); }

void OutputPort::mark_if_long(const Queue& queue, rte_mbuf* packet) {
  if (queue.bytes <= config_.ecn.kmin_bytes ||
      !random_.chance(config_.ecn.probability(queue.bytes))) {
    return;
  }
  if (mark_congestion_experienced(packet) == CeMark::marked) {
    counters_.ecn_marked.add();
  } else {
    counters_.ecn_not_marked.add();
  }
}

std::uint64_t OutputPort::start_of_next(std::uint64_t free_ns, std::uint64_t now_ns) const {
  const std::uint64_t earliest_ns = now_ns > config_.catch_up_ns ? now_ns - config_.catch_up_ns : 0;
  return std::max(free_ns, earliest_ns);
}

std::uint64_t OutputPort::busy_until(std::uint64_t start_ns, std::uint32_t bytes,
                                     std::uint64_t& carry) const {
  if (config_.rate_bits_per_s == 0) return start_ns;
  const std::uint64_t wire_bytes = std::max(bytes, kShortestFrameBytes) + kWireOverheadBytes;
  const std::uint64_t total = wire_bytes * kNsBitsPerByte + carry;
  carry = total % config_.rate_bits_per_s;
  return start_ns + total / config_.rate_bits_per_s;
}

OutputPort::Waiting OutputPort::next(std::uint64_t now_ns) {
  if (free_ns_ > now_ns) return {};
  for (std::uint32_t left = occupied_; left != 0;) {
    const std::size_t index = highest(left);
    Queue& queue = queues_[index];
    if (queue.paused_until_ns > now_ns) {
      left &= ~(1u << index);
      continue;
    }
    const Waiting taken = queue.packets.pop();
    queue.bytes -= taken.bytes;
    if (queue.packets.empty()) occupied_ &= ~(1u << index);
    if (index != kControl) {
      --packets_;
      bytes_ -= taken.bytes;
    }
    const std::uint64_t start_ns = start_of_next(free_ns_, now_ns);
    if (start_ns > free_ns_) carry_ = 0;
    free_ns_ = busy_until(start_ns, taken.bytes, carry_);
    return taken;
  }
  return {};
}

std::uint16_t OutputPort::front(rte_mbuf** packets, std::uint16_t count,
                                std::uint64_t now_ns) const {
  std::uint64_t free_ns = free_ns_;
  std::uint64_t carry = carry_;
  std::uint16_t found = 0;
  std::uint32_t left = occupied_;
  std::size_t place = 0;  // in the highest queue that is left
  while (found < count && left != 0 && free_ns <= now_ns) {
    const std::size_t index = highest(left);
    const Queue& queue = queues_[index];
    if (queue.paused_until_ns > now_ns || place == queue.packets.size()) {
      left &= ~(1u << index);
      place = 0;
      continue;
    }
    const Waiting& waiting = queue.packets.at(place++);
    const std::uint64_t start_ns = start_of_next(free_ns, now_ns);
    if (start_ns > free_ns) carry = 0;
    free_ns = busy_until(start_ns, waiting.bytes, carry);
    packets[found++] = waiting.packet;
  }
  return found;
}

std::uint64_t OutputPort::sent(std::uint16_t count, std::uint64_t now_ns) {
  std::uint64_t bytes = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    bytes += next(now_ns).bytes;
  }
  return bytes;
}

std::uint64_t OutputPort::next_departure_ns() const {
  std::uint64_t earliest_ns = kNever;
  for (std::uint32_t left = occupied_; left != 0; left &= left - 1) {
    const auto index = static_cast<std::size_t>(std::countr_zero(left));
    earliest_ns = std::min(earliest_ns, queues_[index].paused_until_ns);
  }
  return earliest_ns == kNever ? kNever : std::max(earliest_ns, free_ns_);
}

void OutputPort::pause(std::uint8_t priority, std::uint64_t until_ns, std::uint64_t now_ns) {
  assert(priority < kPriorities);
  if (until_ns > now_ns) counters_.pauses.add();
  queues_[priority].paused_until_ns = until_ns;
}

std::size_t OutputPort::clear() {
  std::size_t count = 0;
  for (Queue& queue : queues_) {
    for (; !queue.packets.empty(); ++count) {
      rte_pktmbuf_free(queue.packets.pop().packet);
    }
    queue.bytes = 0;
  }
  occupied_ = 0;
  packets_ = 0;
  bytes_ = 0;
  return count;
}

}  // namespace rockhopper::stack::net
