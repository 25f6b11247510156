// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <rte_ether.h>

#include "stack/error.h"
#include "stack/host_context.h"
#include "stack/host_frame.h"
#include "stack/multicast_membership.h"

namespace rockhopper::stack {

/// The multicast groups of a host: which packets to groups are taken, and IGMP and MLD around
/// MulticastMembership.
class MulticastGroups final : private MembershipReporter {
 public:
  /// `host` must outlive it.
  explicit MulticastGroups(HostContext& host);

  /// As Host's of the same names.
  [[nodiscard]] Expected<void> join(const IpAddress& group);
  [[nodiscard]] Expected<void> leave(const IpAddress& group);
  [[nodiscard]] bool is_member(const IpAddress& group) const {
    return (group.is_ipv4() ? ipv4_groups_ : ipv6_groups_).contains(group);
  }
  [[nodiscard]] std::vector<rte_ether_addr> macs() const;
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

  /// Whether a packet to a group is for this host.
  [[nodiscard]] bool takes(const IpHeader& ip) const;
  [[nodiscard]] HostDrop receive_igmp(const HostFrame& frame, std::uint64_t now_ns);
  /// A message of ICMPv6 of one of MLD's types, whose checksum is right.
  [[nodiscard]] HostDrop receive_mld(const HostFrame& frame, std::uint64_t now_ns);

 private:
  [[nodiscard]] MulticastMembership& change(const IpAddress& group);
  void report(std::uint8_t version, std::span<const MembershipRecord> records) override;
  void send_report(std::uint8_t version, std::span<const MembershipRecord> records);

  HostContext& host_;
  MulticastMembership ipv4_groups_;
  MulticastMembership ipv6_groups_;
  std::uint64_t generation_ = 1;  ///< one more with each change
};

}  // namespace rockhopper::stack
