// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/shard_link.h"

#include <array>
#include <atomic>
#include <cassert>
#include <string>

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_prefetch.h>

namespace rockhopper::stack {
namespace {

constexpr std::uint32_t kRingMax = 1u << 16;

void** as_objects(rte_mbuf** packets) { return reinterpret_cast<void**>(packets); }

}  // namespace

Expected<std::unique_ptr<ShardRings>> ShardRings::create(std::uint16_t shards,
                                                         std::uint32_t packets) {
  if (shards == 0 || shards > kShardsMax) {
    return fail(ErrorCode::invalid_argument, "a port has 1 to {} shards, not {}", kShardsMax,
                shards);
  }
  if (packets == 0 || packets > kRingMax) {
    return fail(ErrorCode::invalid_argument, "a shard's ring holds 1 to {} packets, not {}",
                kRingMax, packets);
  }
  static std::atomic<unsigned> sets{0};
  const unsigned set = sets.fetch_add(1, std::memory_order_relaxed);
  std::unique_ptr<ShardRings> rings(new ShardRings);
  for (std::uint16_t shard = 0; shard < shards; ++shard) {
    rte_ring* ring = rte_ring_create(fmt::format("shard-{}-{}", set, shard).c_str(), packets,
                                     SOCKET_ID_ANY, RING_F_SC_DEQ | RING_F_EXACT_SZ);
    if (ring == nullptr) {
      return fail(ErrorCode::exhausted, "no ring for shard {}: {}", shard, rte_strerror(rte_errno));
    }
    rings->rings_.push_back(ring);
  }
  return rings;
}

ShardRings::~ShardRings() {
  for (rte_ring* ring : rings_) {
    void* packet = nullptr;
    while (rte_ring_dequeue(ring, &packet) == 0) {
      rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
    }
    rte_ring_free(ring);
  }
}

ShardLink::ShardLink(Link& queue, ShardRings& rings, const Steering& steering, std::uint16_t shard)
    : queue_(queue), rings_(rings), steering_(steering), shard_(shard) {
  assert(shard < rings.shards());
}

std::uint16_t ShardLink::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  // Half the burst at most, so that neither source starves the other.
  const unsigned from_ring = rte_ring_sc_dequeue_burst(rings_.rings_[shard_], as_objects(packets),
                                                       (count + 1u) / 2, nullptr);
  if (from_ring > 0) counters_.taken_over.add(from_ring);
  const std::uint16_t from_queue =
      queue_.rx_burst(packets + from_ring, static_cast<std::uint16_t>(count - from_ring), now_ns);
  return static_cast<std::uint16_t>(from_ring + sort(packets + from_ring, from_queue));
}

std::uint16_t ShardLink::sort(rte_mbuf** packets, std::uint16_t count) {
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    if (i + 1 < count) rte_prefetch0(rte_pktmbuf_mtod(packets[i + 1], const void*));
    rte_mbuf* packet = packets[i];
    const std::uint16_t shard = steering_.shard_of(packet);
    if (shard == shard_) {
      packets[kept++] = packet;
    } else if (shard == Steering::kEveryShard) {
      copy_to_others(packet);
      packets[kept++] = packet;
    } else {
      counters_.handed_over.add();
      put(shard, packet);
    }
  }
  if (kept < count) {
    for (std::uint16_t shard = 0; shard < rings_.shards(); ++shard) {
      flush(shard);
    }
  }
  return kept;
}

void ShardLink::copy_to_others(const rte_mbuf* packet) {
  for (std::uint16_t shard = 0; shard < rings_.shards(); ++shard) {
    if (shard == shard_) continue;
    rte_mbuf* copy = rte_pktmbuf_copy(packet, packet->pool, 0, UINT32_MAX);
    if (copy == nullptr) {
      counters_.no_mbuf.add();
      continue;
    }
    counters_.copied.add();
    put(shard, copy);
    flush(shard);
  }
}

void ShardLink::put(std::uint16_t shard, rte_mbuf* packet) {
  assert(shard < rings_.shards());
  Batch& batch = batches_[shard];
  batch.packets[batch.count++] = packet;
  if (batch.count == kBatch) flush(shard);
}

void ShardLink::flush(std::uint16_t shard) {
  Batch& batch = batches_[shard];
  if (batch.count == 0) return;
  rte_mbuf** packets = batch.packets.data();
  const unsigned taken =
      rte_ring_mp_enqueue_burst(rings_.rings_[shard], as_objects(packets), batch.count, nullptr);
  if (taken < batch.count) {
    counters_.hand_over_full.add(batch.count - taken);
    rte_pktmbuf_free_bulk(packets + taken, batch.count - taken);
  }
  batch.count = 0;
}

void ShardLink::visit_counters(void (*visit)(void*, const char*, std::uint64_t),
                               void* context) const {
  visit(context, "handed_over", counters_.handed_over.value());
  visit(context, "taken_over", counters_.taken_over.value());
  visit(context, "copied", counters_.copied.value());
  visit(context, "hand_over_full", counters_.hand_over_full.value());
  visit(context, "no_mbuf", counters_.no_mbuf.value());
}

void ShardLink::describe_counters(void (*visit)(void*, const char*, const char*), void* context) {
  visit(context, "handed_over", "packets handed over to other shards");
  visit(context, "taken_over", "packets taken over from other shards");
  visit(context, "copied", "copies for other shards of packets that are for every one");
  visit(context, "hand_over_full", "packets lost, as the other shard's ring was full");
  visit(context, "no_mbuf", "copies not made, as there was no buffer");
}

}  // namespace rockhopper::stack
