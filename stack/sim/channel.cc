// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/sim/channel.h"

#include <algorithm>
#include <cassert>

#include "stack/fault_lane.h"

namespace rockhopper::stack::sim {
namespace {

/// After this, what could not be received is offered again.
constexpr std::uint64_t kRetryNs = 1'000;

}  // namespace

Channel::Channel(EventQueue& events, const ChannelConfig& config)
    : events_(events), config_(config), output_(config.output), random_(config.segment_seed) {
  if (config.faults) {
    faults_ = std::make_unique<FaultLane>(*config.faults, config.fault_seed, config.fault_direction,
                                          config.fault_pool);
  }
}

Channel::~Channel() {
  while (!in_flight_.empty()) {
    rte_pktmbuf_free(in_flight_.pop().packet);
  }
}

void Channel::send(rte_mbuf* packet, std::uint8_t priority, std::uint64_t now_ns) {
  output_.push(packet, priority);
  advance(now_ns);
}

void Channel::send_control(rte_mbuf* packet, std::uint64_t now_ns) {
  output_.push_control(packet);
  advance(now_ns);
}

void Channel::set_receiver(ChannelEnd* receiver) {
  receiver_ = receiver;
  schedule(0);
}

void Channel::obey(const net::PfcFrame& frame, std::uint64_t now_ns) {
  if (config_.output.rate_bits_per_s == 0) return;  // pauses are counted in bit times
  for (std::uint8_t priority = 0; priority < kPriorities; ++priority) {
    if ((frame.priorities >> priority & 1) == 0) continue;
    const std::uint64_t pause_ns =
        net::pause_ns(frame.quanta[priority], config_.output.rate_bits_per_s);
    output_.pause(priority, now_ns + pause_ns, now_ns);
  }
  advance(now_ns);
}

/// Lets go what may leave.
void Channel::advance(std::uint64_t now_ns) {
  while (rte_mbuf* packet = output_.take(now_ns)) {
    counters_.packets.add();
    counters_.bytes.add(packet->pkt_len);
    if (sender_ != nullptr) sender_->on_departure(packet, now_ns);
    in_flight_.push({packet, std::max(output_.free_ns(), now_ns) + config_.delay_ns});
  }
  schedule(0);
}

void Channel::schedule(std::uint64_t not_before_ns) {
  const std::uint64_t departure_ns = output_.next_departure_ns();
  const std::uint64_t arrival_ns = receiver_ == nullptr ? kNever : next_arrival_ns();
  const std::uint64_t next_ns = std::min(departure_ns, arrival_ns);
  events_.schedule(*this, next_ns == kNever ? kNever : std::max(next_ns, not_before_ns));
}

void Channel::run(std::uint64_t now_ns) {
  if (output_.next_departure_ns() <= now_ns) advance(now_ns);
  if (receiver_ != nullptr && next_arrival_ns() <= now_ns) receiver_->on_arrival(now_ns);
  // Also where a receiver with a timer of its own has taken the arrivals already.
  schedule(receiver_ != nullptr && next_arrival_ns() <= now_ns ? now_ns + kRetryNs : 0);
}

std::uint64_t Channel::next_arrival_ns() const {
  const std::uint64_t arrival_ns = in_flight_.empty() ? kNever : in_flight_.front().arrival_ns;
  return faults_ == nullptr ? arrival_ns : std::min(arrival_ns, faults_->next_release_ns());
}

std::uint16_t Channel::receive(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  if (faults_ != nullptr) return receive_with_faults(packets, count, now_ns);
  std::uint16_t received = 0;
  while (received < count && !in_flight_.empty() && in_flight_.front().arrival_ns <= now_ns) {
    rte_mbuf* packet = arrived(in_flight_.front().packet);
    if (packet == nullptr) break;
    packets[received++] = packet;
    in_flight_.pop();
  }
  return received;
}

std::uint16_t Channel::receive_with_faults(rte_mbuf** packets, std::uint16_t count,
                                           std::uint64_t now_ns) {
  while (!in_flight_.empty() && in_flight_.front().arrival_ns <= now_ns && faults_->room() > 0) {
    rte_mbuf* packet = arrived(in_flight_.front().packet);
    if (packet == nullptr) break;
    const std::uint64_t arrival_ns = in_flight_.pop().arrival_ns;
    if (!faults_begun_) faults_->begin(arrival_ns);
    faults_begun_ = true;
    faults_->offer(packet, arrival_ns);
  }
  return faults_->take_due(packets, count, now_ns);
}

/// What the receiver gets of a packet; nullptr when there is no mbuf for it now.
rte_mbuf* Channel::arrived(rte_mbuf* packet) {
  if (config_.copy_pool == nullptr || packet->pkt_len == 0) return packet;
  rte_mbuf* copy = take_copy(packet);
  if (copy == nullptr) {
    counters_.no_mbuf.add();
    return nullptr;
  }
  rte_pktmbuf_free(packet);
  copy->ol_flags = 0;  // offload requests concern the sender's device
  return copy;
}

rte_mbuf* Channel::take_copy(const rte_mbuf* packet) {
  const std::uint32_t length = packet->pkt_len;
  if (config_.segment_seed == 0) return rte_pktmbuf_copy(packet, config_.copy_pool, 0, UINT32_MAX);

  rte_mbuf* head = nullptr;
  for (std::uint32_t offset = 0; offset < length || head == nullptr;) {
    // Mostly cuts within the headers, where a reader is most likely to overlook one.
    const std::uint64_t longest = random_.below(2) == 0 ? 24 : length;
    const auto piece = std::min<std::uint32_t>(
        static_cast<std::uint32_t>(1 + random_.below(longest + 1)), length - offset);
    rte_mbuf* part = rte_pktmbuf_copy(packet, config_.copy_pool, offset, piece);
    if (part == nullptr || (head != nullptr && rte_pktmbuf_chain(head, part) != 0)) {
      rte_pktmbuf_free(part);
      rte_pktmbuf_free(head);
      return nullptr;
    }
    if (head == nullptr) head = part;
    offset += piece;
  }
  return head;
}

const FaultCounters* Channel::fault_counters() const {
  return faults_ == nullptr ? nullptr : &faults_->counters();
}

}  // namespace rockhopper::stack::sim
