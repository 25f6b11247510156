// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/error.h"
#include "stack/host.h"
#include "stack/ip_address.h"

namespace rockhopper::roce {

/// Where packets go and how: of a connection, or of an address handle (ibv_ah_attr with its
/// ibv_global_route).
struct AddressVector {
  stack::IpAddress source;       ///< local GID; one of the host's addresses
  stack::IpAddress destination;  ///< remote GID
  /// DSCP times 4. Of its ECN bits only "congestion experienced" is sent as it is; else the queue
  /// pair's congestion control says whether it is ECN-capable.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;    ///< 20 bits; also entropy of the UDP source port when not 0
  std::uint8_t service_level = 0;  ///< 0 to 7: the 802.1p priority on a tagged port
  bool priority_tag = true;        ///< has the tag of HostConfig::priority_tags
  friend bool operator==(const AddressVector&, const AddressVector&) = default;
};

/// Two unicast addresses of one family, and every field in its range.
[[nodiscard]] Expected<void> check_address_vector(const AddressVector& av);
/// The same for datagrams, whose destination may be a multicast group.
[[nodiscard]] Expected<void> check_datagram_vector(const AddressVector& av);

/// The lower headers of all packets that go there. Their UDP source port comes from `entropy`,
/// which is to be constant for what must stay in order, unless a flow label gives it.
[[nodiscard]] stack::FlowConfig flow_config(const AddressVector& av, std::uint64_t entropy);

/// Bytes before the payload of a received datagram: the IPv6 header as a GRH; of IPv4, 20 zeros and
/// the IPv4 header (IBTA annex A17, and verbs).
inline constexpr std::uint32_t kGrhBytes = 40;

/// Where an answer to a datagram goes that has these bytes, as ibv_init_ah_from_wc reckons.
[[nodiscard]] AddressVector reply_vector(std::span<const std::byte, kGrhBytes> grh);

}  // namespace rockhopper::roce
