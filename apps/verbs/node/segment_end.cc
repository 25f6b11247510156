// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/segment_end.h"

#include <ctime>
#include <utility>

#include "stack/segment/directory.h"
#include "stack/time_units.h"

namespace rockhopper::verbs {

SegmentEnd::SegmentEnd(std::unique_ptr<stack::segment::Membership> membership, std::uint16_t mtu,
                       rte_mempool* pool)
    : membership_(std::move(membership)),
      link_({.membership = membership_.get(), .pool = pool, .mtu = mtu}) {}

Expected<std::unique_ptr<SegmentEnd>> SegmentEnd::open(std::uint16_t mtu, rte_mempool* pool) {
  ROCKHOPPER_TRY(auto directory, stack::segment::directory());
  ROCKHOPPER_TRY(auto membership, stack::segment::Membership::join(std::move(directory)));
  return std::unique_ptr<SegmentEnd>(new SegmentEnd(std::move(membership), mtu, pool));
}

bool SegmentEnd::arm() noexcept {
  const auto armed = link_.arm();
  armed_ = armed.value_or(0);
  return armed.has_value();
}

void SegmentEnd::sleep(std::uint64_t deadline_ns) noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const std::uint64_t now_ns = static_cast<std::uint64_t>(time.tv_sec) * kNsPerSecond +
                               static_cast<std::uint64_t>(time.tv_nsec);
  link_.sleep(armed_, deadline_ns > now_ns ? deadline_ns - now_ns : 0);
}

}  // namespace rockhopper::verbs
