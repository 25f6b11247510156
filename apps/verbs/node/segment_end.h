// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <rte_mempool.h>

#include "apps/verbs/node/doorbell.h"
#include "roce/qpn_allocator.h"
#include "stack/error.h"
#include "stack/segment/membership.h"
#include "stack/segment/segment_link.h"

namespace rockhopper::verbs {

/// This process's place among those of the host that share the device: the link to them, the
/// doorbell that they ring, and the numbers of its queue pairs, which no other of them has.
class SegmentEnd final : public Doorbell, public roce::QpnAllocator {
 public:
  /// Joins the segment of this user and network namespace. `pool` is for what arrives, and not
  /// owned.
  [[nodiscard]] static Expected<std::unique_ptr<SegmentEnd>> open(std::uint16_t mtu,
                                                                  rte_mempool* pool);

  [[nodiscard]] stack::segment::SegmentLink& link() { return link_; }
  /// In a child of fork(): the place is the parent's alone. Nothing else may be called then.
  void abandon() noexcept { membership_.reset(); }

  [[nodiscard]] bool arm() noexcept override;
  void sleep(std::uint64_t deadline_ns) noexcept override;
  void ring() noexcept override { link_.wake(); }

  [[nodiscard]] bool claim(wire::Qpn number) override {
    return membership_->claim(static_cast<std::uint16_t>(number.value));
  }
  void release(wire::Qpn number) override {
    membership_->release(static_cast<std::uint16_t>(number.value));
  }

 private:
  SegmentEnd(std::unique_ptr<stack::segment::Membership> membership, std::uint16_t mtu,
             rte_mempool* pool);

  std::unique_ptr<stack::segment::Membership> membership_;
  stack::segment::SegmentLink link_;
  std::uint32_t armed_ = 0;
};

}  // namespace rockhopper::verbs
