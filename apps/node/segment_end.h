// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rte_mempool.h>

#include "roce/qpn_allocator.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"
#include "stack/interface_address.h"
#include "stack/segment/membership.h"
#include "stack/segment/segment_link.h"

namespace rockhopper {

struct SegmentEndConfig {
  std::string directory{};  ///< empty: the one of this user and network namespace
  /// Largest IP packet in bytes; less if the segment's way out takes less.
  std::uint16_t mtu = 4300;
  rte_mempool* pool = nullptr;  ///< for what arrives; not owned
  /// Each process can have a queue pair 1, and this says whose a datagram is; null: one of them
  /// has it.
  stack::segment::FindReceiver find_receiver = nullptr;
  stack::segment::WayOut way_out = stack::segment::WayOut::none;
  /// All of the segment's, in any order. Looked at where there is a way out alone.
  std::vector<stack::InterfaceAddress> addresses{};
  /// Something between the link and the host looks at frames, or changes them: a capture, faults.
  /// What is sent is to have its ICRC then, and what arrives gets it.
  bool wants_icrc = false;
};

/// An endpoint's place among the processes that share a segment: its link to them, and the numbers
/// of its queue pairs, which no other of them has. Must outlive the engine that takes them.
class SegmentEnd final : public roce::QpnAllocator {
 public:
  /// Joins the segment. Reads ROCKHOPPER_ICRC, which says when packets between processes of a
  /// segment have an ICRC: "auto", where somebody looks at them, which is the default, or "always".
  /// Errors: as stack::segment::Membership::join() and become_gateway(); `invalid_argument` if the
  /// variable says anything else; with a way out by another member `not_found` if there has been
  /// none, and `invalid_state` if that has other addresses.
  [[nodiscard]] static Expected<std::unique_ptr<SegmentEnd>> open(SegmentEndConfig config);

  [[nodiscard]] stack::segment::SegmentLink& link() { return link_; }
  [[nodiscard]] const stack::segment::SegmentLink& link() const { return link_; }
  [[nodiscard]] stack::segment::Membership& membership() { return *membership_; }
  /// What its host is to do: see stack::HostConfig.
  [[nodiscard]] bool omits_icrc() const { return omits_icrc_; }

  /// Gives frames from outside to the members that they are for, and keeps none. What a member does
  /// not take is dropped, so that nobody waits for one that stands still. Returns how many.
  std::uint16_t pass_on(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns);

  [[nodiscard]] bool claim(wire::Qpn number) override {
    return is_shared(number) || membership_->claim(static_cast<std::uint16_t>(number.value));
  }
  void release(wire::Qpn number) override {
    if (!is_shared(number)) membership_->release(static_cast<std::uint16_t>(number.value));
  }

 private:
  SegmentEnd(std::unique_ptr<stack::segment::Membership> membership,
             const SegmentEndConfig& config);
  [[nodiscard]] bool is_shared(wire::Qpn number) const {
    return shares_ && number == wire::kGsiQpn;
  }

  const bool shares_;
  const bool omits_icrc_;
  std::unique_ptr<stack::segment::Membership> membership_;
  stack::segment::SegmentLink link_;
};

}  // namespace rockhopper
