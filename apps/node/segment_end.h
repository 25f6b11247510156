// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <rte_mempool.h>

#include "roce/qpn_allocator.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"
#include "stack/segment/membership.h"
#include "stack/segment/segment_link.h"

namespace rockhopper {

/// An endpoint's place among the processes that share a segment: its link to them, and the numbers
/// of its queue pairs, which no other of them has. Must outlive the engine that takes them.
class SegmentEnd final : public roce::QpnAllocator {
 public:
  /// Joins the segment in `directory`; empty: the one of this user and network namespace. `pool`
  /// is for what arrives, and not owned. `find_receiver`: each process can have a queue pair 1, and
  /// that says whose a datagram is; null: one of them has it. Errors: as
  /// stack::segment::Membership::join().
  [[nodiscard]] static Expected<std::unique_ptr<SegmentEnd>> open(
      std::string directory, std::uint16_t mtu, rte_mempool* pool,
      stack::segment::FindReceiver find_receiver = nullptr);

  [[nodiscard]] stack::segment::SegmentLink& link() { return link_; }
  [[nodiscard]] const stack::segment::SegmentLink& link() const { return link_; }
  [[nodiscard]] stack::segment::Membership& membership() { return *membership_; }

  [[nodiscard]] bool claim(wire::Qpn number) override {
    return is_shared(number) || membership_->claim(static_cast<std::uint16_t>(number.value));
  }
  void release(wire::Qpn number) override {
    if (!is_shared(number)) membership_->release(static_cast<std::uint16_t>(number.value));
  }

 private:
  SegmentEnd(std::unique_ptr<stack::segment::Membership> membership, std::uint16_t mtu,
             rte_mempool* pool, stack::segment::FindReceiver find_receiver);
  [[nodiscard]] bool is_shared(wire::Qpn number) const {
    return shares_ && number == wire::kGsiQpn;
  }

  const bool shares_;
  std::unique_ptr<stack::segment::Membership> membership_;
  stack::segment::SegmentLink link_;
};

}  // namespace rockhopper
