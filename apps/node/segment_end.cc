// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/segment_end.h"

#include <utility>

#include "stack/segment/directory.h"

namespace rockhopper {

SegmentEnd::SegmentEnd(std::unique_ptr<stack::segment::Membership> membership, std::uint16_t mtu,
                       rte_mempool* pool, stack::segment::FindReceiver find_receiver)
    : shares_(find_receiver != nullptr),
      membership_(std::move(membership)),
      link_({.membership = membership_.get(),
             .pool = pool,
             .mtu = mtu,
             .find_receiver = find_receiver}) {
  static_assert(stack::segment::kSharedNumber == wire::kGsiQpn.value);
}

Expected<std::unique_ptr<SegmentEnd>> SegmentEnd::open(std::string directory, std::uint16_t mtu,
                                                       rte_mempool* pool,
                                                       stack::segment::FindReceiver find_receiver) {
  if (directory.empty()) {
    ROCKHOPPER_TRY(directory, stack::segment::directory());
  }
  ROCKHOPPER_TRY(auto membership, stack::segment::Membership::join(std::move(directory)));
  return std::unique_ptr<SegmentEnd>(
      new SegmentEnd(std::move(membership), mtu, pool, find_receiver));
}

}  // namespace rockhopper
