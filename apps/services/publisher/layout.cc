// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/layout.h"

namespace rockhopper::publisher {
namespace {

template <typename T>
void store_relaxed(T& word, T value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}

}  // namespace

void write_control(ControlBlock& block, const ControlBlock& values) {
  store_relaxed(block.magic, std::uint32_t{0});
  std::atomic_thread_fence(std::memory_order_release);
  store_relaxed(block.layout, values.layout);
  store_relaxed(block.store_id, values.store_id);
  store_relaxed(block.ring_bytes, values.ring_bytes);
  store_relaxed(block.tail_pos, values.tail_pos);
  store_relaxed(block.tail_seq, values.tail_seq);
  store_relaxed(block.head_pos, values.head_pos);
  store_relaxed(block.head_seq, values.head_seq);
  store_relaxed(block.heartbeat_ns, values.heartbeat_ns);
  std::atomic_thread_fence(std::memory_order_release);
  store_relaxed(block.epoch, values.epoch);
  std::atomic_thread_fence(std::memory_order_release);
  store_relaxed(block.magic, values.magic);
}

}  // namespace rockhopper::publisher
