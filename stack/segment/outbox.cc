// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/outbox.h"

#include <algorithm>

namespace rockhopper::stack::segment {

Outbox::Outbox(Lane& lane, std::uint32_t capacity) : writer_(lane), held_(capacity) {}

Outbox::Result Outbox::send(rte_mbuf* frame, std::uint64_t now_ns, bool may_hold) {
  if (still_stalled()) return Result::stalled;
  if (held_count_ == 0) {
    if (writer_.put(*frame)) return Result::put;
    look(now_ns);
    if (stalled_) return Result::stalled;
  }
  if (!may_hold || held_count_ == held_.size()) return Result::no_room;
  held_at(held_count_++) = frame;
  return Result::held;
}

std::uint32_t Outbox::flush(std::uint64_t now_ns) {
  while (held_count_ > 0 && writer_.put(*held_at(0))) {
    rte_pktmbuf_free(held_at(0));
    first_ = (first_ + 1) % static_cast<std::uint32_t>(held_.size());
    --held_count_;
  }
  if (held_count_ == 0) return 0;
  look(now_ns);
  return stalled_ ? drop_held() : 0;
}

/// The lane is full: has the receiver taken anything since the last look?
void Outbox::look(std::uint64_t now_ns) {
  const std::uint32_t taken = writer_.taken();
  if (taken == taken_) {
    waited_ns_ += std::min(now_ns - looked_ns_, kLookNs);
    stalled_ = waited_ns_ >= kStalledNs;
  } else {
    waited_ns_ = 0;
  }
  taken_ = taken;
  looked_ns_ = now_ns;
}

bool Outbox::still_stalled() {
  if (!stalled_) return false;
  if (writer_.taken() == taken_) return true;
  stalled_ = false;
  return false;
}

std::uint32_t Outbox::drop_held() {
  const std::uint32_t dropped = held_count_;
  for (; held_count_ > 0; --held_count_) {
    rte_pktmbuf_free(held_at(held_count_ - 1));
  }
  return dropped;
}

}  // namespace rockhopper::stack::segment
