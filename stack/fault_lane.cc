// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/fault_lane.h"

#include <algorithm>
#include <cassert>

#include <rte_byteorder.h>
#include <rte_ether.h>

#include "stack/checksum_offload.h"
#include "stack/link.h"
#include "stack/mbuf_read.h"
#include "stack/roce_locator.h"
#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

/// Simulations make thousands of lanes, and few of them ever hold more. The others grow some times.
constexpr std::size_t kWaitingAtFirst = 512;

enum class Stream : std::uint64_t {
  loss,
  corruption,
  duplication,
  reordering,
  jitter,
  black_hole,
  lateness,
};

Random stream(std::uint64_t seed, std::uint64_t direction, Stream kind) {
  // Starting points far apart: each is an output of a generator, not a neighbour of another.
  Random root(seed);
  const std::uint64_t index = direction * 16 + static_cast<std::uint64_t>(kind);
  return Random(root.next() ^ Random(index).next());
}

/// ARP has no checksum of its own: what damages it is the frame's to notice, and a NIC drops such a
/// frame. Let through, it would put a wrong station into the peer's neighbour table for minutes.
bool has_checksum(const rte_mbuf* packet) {
  return read_at<rte_be16_t>(packet, 2 * RTE_ETHER_ADDR_LEN) !=
         rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP);
}

}  // namespace

FaultLane::FaultLane(const FaultRates& rates, std::uint64_t seed, std::uint64_t direction,
                     rte_mempool* pool)
    : rates_(rates),
      pool_(pool),
      loss_(stream(seed, direction, Stream::loss)),
      corruption_(stream(seed, direction, Stream::corruption)),
      duplication_(stream(seed, direction, Stream::duplication)),
      lateness_(stream(seed, direction, Stream::lateness)),
      reordering_(stream(seed, direction, Stream::reordering)),
      jitter_(stream(seed, direction, Stream::jitter)),
      black_holes_(stream(seed, 0, Stream::black_hole)),
      rate_queue_(rates.rate_bits_per_s, rates.queue_packets) {
  waiting_.reserve(kWaitingAtFirst);
}

FaultLane::~FaultLane() {
  for (const Waiting& waiting : waiting_) {
    rte_pktmbuf_free(waiting.packet);
  }
}

void FaultLane::begin(std::uint64_t now_ns) {
  begin_ns_ = now_ns;
  if (rates_.black_hole.interval_ns != 0) schedule_black_hole(now_ns);
}

void FaultLane::schedule_black_hole(std::uint64_t from_ns) {
  const BlackHole& hole = rates_.black_hole;
  hole_begin_ns_ = from_ns + black_holes_.below(2 * hole.interval_ns + 1);
  hole_end_ns_ = hole_begin_ns_ + hole.length_min_ns +
                 black_holes_.below(hole.length_max_ns - hole.length_min_ns + 1);
}

bool FaultLane::in_black_hole(std::uint64_t now_ns) {
  const BlackHole& hole = rates_.black_hole;
  const std::uint64_t age_ns = now_ns - begin_ns_;
  if (age_ns >= hole.fixed_start_ns && age_ns - hole.fixed_start_ns < hole.fixed_length_ns) {
    return true;
  }
  if (hole.interval_ns == 0) return false;
  while (now_ns >= hole_end_ns_) {
    schedule_black_hole(hole_end_ns_);
  }
  return now_ns >= hole_begin_ns_;
}

bool FaultLane::matches(OpcodeDrop& drop, const rte_mbuf* packet) const {
  if (drop.limit == 0) return false;
  const auto bth = find_bth(packet);
  if (!bth) return false;
  const auto opcode = read_at<std::uint8_t>(packet, *bth);
  if (!opcode || *opcode < drop.first || *opcode > drop.last) return false;
  if (!drop.match_offset) return true;
  return read_at<std::uint8_t>(packet, *bth + *drop.match_offset) == drop.match_value;
}

Counter* FaultLane::reason_to_drop(const rte_mbuf* packet, std::uint64_t now_ns) {
  if (rates_.drop_every != 0 && counters_.offered.value() % rates_.drop_every == 0) {
    return &counters_.dropped_nth;
  }
  for (OpcodeDrop& drop : rates_.drop_opcodes) {
    if (matches(drop, packet)) {
      if (drop.skip > 0) {
        --drop.skip;
        continue;
      }
      --drop.limit;
      return &counters_.dropped_opcode;
    }
  }
  if (in_black_hole(now_ns)) return &counters_.dropped_black_hole;
  if (loss_.chance(rates_.loss)) return &counters_.lost;
  return nullptr;
}

rte_mbuf* FaultLane::corrupt(rte_mbuf* packet) {
  // A copy, as others may hold references to the same bytes.
  rte_mbuf* copy = packet->pkt_len == 0 ? nullptr : rte_pktmbuf_copy(packet, pool_, 0, UINT32_MAX);
  if (copy == nullptr) {
    counters_.copy_failed.add();
    return packet;
  }
  // Else the device would mend a damaged IPv4 header.
  fill_offloaded_checksum(copy, rte_pktmbuf_mtod(copy, std::uint8_t*), copy->data_len);
  copy->ol_flags &= ~RTE_MBUF_F_TX_IP_CKSUM;

  const std::uint64_t bit = corruption_.below(std::uint64_t{copy->pkt_len} * 8);
  auto byte = static_cast<std::uint32_t>(bit / 8);
  rte_mbuf* part = copy;
  for (; byte >= part->data_len; part = part->next) {
    byte -= part->data_len;
  }
  *rte_pktmbuf_mtod_offset(part, std::uint8_t*, byte) ^= static_cast<std::uint8_t>(1u << (bit % 8));
  rte_pktmbuf_free(packet);
  counters_.corrupted.add();
  return copy;
}

void FaultLane::offer(rte_mbuf* packet, std::uint64_t now_ns) {
  assert(room() > 0);
  counters_.offered.add();
  if (Counter* reason = reason_to_drop(packet, now_ns); reason != nullptr) {
    reason->add();
    rte_pktmbuf_free(packet);
    return;
  }
  if (corruption_.chance(rates_.corrupt) && has_checksum(packet)) packet = corrupt(packet);
  rte_mbuf* duplicate = nullptr;
  std::uint64_t duplicate_extra_ns = 0;
  if (duplication_.chance(rates_.duplicate)) {
    duplicate_extra_ns = duplication_.below(rates_.duplicate_max_ns + 1);
    duplicate = rte_pktmbuf_copy(packet, pool_, 0, UINT32_MAX);
    (duplicate != nullptr ? counters_.duplicated : counters_.copy_failed).add();
  }
  if (rates_.late > 0 && lateness_.chance(rates_.late)) copy_late(packet, now_ns);
  pass(packet, now_ns, 0);
  if (duplicate != nullptr) pass(duplicate, now_ns, duplicate_extra_ns);
}

void FaultLane::copy_late(const rte_mbuf* packet, std::uint64_t now_ns) {
  const std::uint64_t extra_ns = lateness_.below(rates_.late_max_ns + 1);
  if (late_waiting_ == kLateCapacity) {
    counters_.late_left_out.add();
    return;
  }
  rte_mbuf* copy = rte_pktmbuf_copy(packet, pool_, 0, UINT32_MAX);
  if (copy == nullptr) {
    counters_.copy_failed.add();
    return;
  }
  counters_.late.add();
  ++late_waiting_;
  push(copy, now_ns + rates_.delay_ns + extra_ns, true);
}

void FaultLane::pass(rte_mbuf* packet, std::uint64_t now_ns, std::uint64_t extra_ns) {
  std::uint64_t release_ns = now_ns;
  if (rates_.rate_bits_per_s != 0) {
    const auto departure_ns = rate_queue_.pass(packet->pkt_len, now_ns);
    if (!departure_ns) {
      counters_.dropped_queue_full.add();
      rte_pktmbuf_free(packet);
      return;
    }
    release_ns = *departure_ns;
  }
  release_ns += rates_.delay_ns + jitter_.below(rates_.jitter_ns + 1);
  release_ns = std::max(release_ns, last_release_ns_);
  if (extra_ns == 0 && reordering_.chance(rates_.reorder)) {
    extra_ns = 1 + reordering_.below(rates_.reorder_max_ns);
    counters_.reordered.add();
  } else if (extra_ns == 0) {
    last_release_ns_ = release_ns;
  }
  push(packet, release_ns + extra_ns, false);
}

void FaultLane::push(rte_mbuf* packet, std::uint64_t release_ns, bool late) {
  assert(waiting_.size() < kCapacity + kLateCapacity);
  waiting_.push_back({release_ns, next_number_++, packet, late});
  std::push_heap(waiting_.begin(), waiting_.end(), Later{});
}

std::uint16_t FaultLane::take_due(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  std::uint16_t taken = 0;
  while (taken < count && !waiting_.empty() && waiting_.front().release_ns <= now_ns) {
    packets[taken++] = waiting_.front().packet;
    late_waiting_ -= waiting_.front().late ? 1 : 0;
    std::pop_heap(waiting_.begin(), waiting_.end(), Later{});
    waiting_.pop_back();
  }
  counters_.delivered.add(taken);
  return taken;
}

std::uint64_t FaultLane::next_release_ns() const {
  return waiting_.empty() ? kNever : waiting_.front().release_ns;
}

}  // namespace rockhopper::stack
