// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stack/error.h"
#include "stack/interface_address.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

/// As RFC 4862, section 2, names them; for IPv4 too.
enum class AddressState : std::uint8_t {
  tentative,  ///< not used yet: whether somebody else has it is being found out
  preferred,
  duplicate,  ///< not used: somebody else has it
};

/// Whether the first `length` bits of the 16 bytes are the same: 96 more than of an IPv4 prefix.
[[nodiscard]] bool same_prefix(const IpAddress& a, const IpAddress& b, std::uint8_t length);

/// The addresses of a host with their prefixes, and a gateway for each family.
class AddressTable {
 public:
  /// With `loopback`, addresses of the loopback device count as those of stations.
  explicit AddressTable(bool loopback = false) : loopback_(loopback) {}

  static constexpr std::size_t kLimit = 64;

  struct Entry {
    IpAddress address;
    std::uint8_t prefix_length;  ///< over the 16 bytes: 96 more than an IPv4 one's
    std::uint16_t index;         ///< for as long as the address is there
    AddressState state = AddressState::tentative;
    std::uint8_t announcements = 0;  ///< still to be made
    std::uint8_t probes = 0;         ///< still to be made
    std::uint64_t next_announcement_ns = 0;
    std::uint64_t next_probe_ns = 0;    ///< tentative: when it goes on; 0: it has to begin
    std::uint64_t next_defence_ns = 0;  ///< preferred: not before that

    [[nodiscard]] bool usable() const { return state == AddressState::preferred; }
  };

  /// Refuses a second one of the same address, and what is no unicast address. Its index is the
  /// lowest free one.
  [[nodiscard]] Expected<void> add(const IpAddress& address, std::uint8_t prefix_length);
  [[nodiscard]] Expected<void> remove(const IpAddress& address);
  /// One outside of our prefixes is on the link nevertheless, as clouds have them. Refuses what is
  /// no unicast address, or ours, or of a family that we have no address of.
  [[nodiscard]] Expected<void> set_gateway(const IpAddress& gateway);

  /// Whether a station may have the address, and send from it.
  [[nodiscard]] bool is_of_station(const IpAddress& address) const {
    return is_station_address(address) || (loopback_ && address.is_loopback());
  }
  [[nodiscard]] bool owns(const IpAddress& address) const {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.address == address && entry.usable();
    });
  }
  /// Returns null if it is not there, in whatever state.
  [[nodiscard]] Entry* find(const IpAddress& address);
  [[nodiscard]] const Entry* find(const IpAddress& address) const;
  /// Returns null if no address has that index.
  [[nodiscard]] const Entry* at(std::uint16_t index) const;
  /// Whether `group` is the solicited-node group of an address of ours (RFC 4291, section 2.7.1).
  [[nodiscard]] bool in_solicited_node_group(const IpAddress& group) const;
  /// Whether `address` is inside one of our prefixes, or a gateway outside of them.
  [[nodiscard]] bool on_link(const IpAddress& address) const;
  /// Where a packet for `destination` goes first: itself if on link, else the gateway if any.
  [[nodiscard]] std::optional<IpAddress> next_hop(const IpAddress& destination) const;
  /// Our address to ask for `neighbour` with: that of the longest prefix around it, else the first
  /// of its family.
  [[nodiscard]] std::optional<IpAddress> source_for(const IpAddress& neighbour) const;
  [[nodiscard]] bool has_ipv6() const;

  /// Also those that are not usable.
  [[nodiscard]] std::vector<Entry>& entries() { return entries_; }

 private:
  bool loopback_;
  std::vector<Entry> entries_;
  struct Gateway {
    IpAddress address;
    bool is_outside = false;  ///< of all prefixes when it was set
  };

  [[nodiscard]] bool in_prefix(const IpAddress& address) const;
  [[nodiscard]] const std::optional<Gateway>& gateway_of(bool ipv4) const {
    return ipv4 ? ipv4_gateway_ : ipv6_gateway_;
  }

  std::optional<Gateway> ipv4_gateway_;
  std::optional<Gateway> ipv6_gateway_;
};

/// ff02::1:ffXX:XXXX (RFC 4291, section 2.7.1).
[[nodiscard]] IpAddress solicited_node_group(const IpAddress& address);

}  // namespace rockhopper::stack
