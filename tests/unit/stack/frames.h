// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

/// Frames as bytes, written from the RFCs' header diagrams and sharing nothing with the stack under
/// test.
namespace rockhopper::test::frames {

using Bytes = std::vector<std::uint8_t>;
using Mac = std::array<std::uint8_t, 6>;

inline constexpr Mac kOurMac{0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
inline constexpr Mac kPeerMac{0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee};
inline constexpr Mac kOtherMac{0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0x01};
inline constexpr Mac kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

[[nodiscard]] Bytes join(std::initializer_list<Bytes> parts);
/// The 4 or 16 bytes of a textual address.
[[nodiscard]] Bytes ip(const std::string& text);
/// The complete Internet checksum of `bytes`, as the two bytes to store.
[[nodiscard]] Bytes checksum(const Bytes& bytes);

[[nodiscard]] Bytes ethernet(const Mac& destination, const Mac& source, std::uint16_t type,
                             const Bytes& payload);
/// With an IEEE 802.1Q tag.
[[nodiscard]] Bytes ethernet_tagged(const Mac& destination, const Mac& source, std::uint16_t tci,
                                    std::uint16_t type, const Bytes& payload);

struct IpOptions {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint16_t fragment = 0x4000;  ///< IPv4 flags and offset
  std::uint32_t flow_label = 0;     ///< IPv6
};

/// An IPv4 or IPv6 packet, by the addresses given.
[[nodiscard]] Bytes ip_packet(const std::string& source, const std::string& destination,
                              std::uint8_t protocol, const Bytes& payload,
                              const IpOptions& options = {});
[[nodiscard]] Bytes udp(std::uint16_t source_port, std::uint16_t destination_port,
                        const Bytes& payload, std::uint16_t checksum = 0);
/// With its checksum.
[[nodiscard]] Bytes udp_checked(const std::string& source, const std::string& destination,
                                std::uint16_t source_port, std::uint16_t destination_port,
                                const Bytes& payload);
/// ICMP; the checksum is put in.
[[nodiscard]] Bytes icmp(std::uint8_t type, std::uint8_t code, const Bytes& rest);
/// ICMPv6; the checksum is put in.
[[nodiscard]] Bytes icmpv6(const std::string& source, const std::string& destination,
                           std::uint8_t type, std::uint8_t code, const Bytes& rest);
[[nodiscard]] Bytes arp(std::uint16_t operation, const Mac& sender, const std::string& sender_ip,
                        const Mac& target, const std::string& target_ip);
/// What follows the checksum in a neighbour solicitation or advertisement.
[[nodiscard]] Bytes neighbour(std::uint8_t flags, const std::string& target,
                              const Bytes& options = {});
/// Link-layer address option: 1 is the source's, 2 the target's.
[[nodiscard]] Bytes link_option(std::uint8_t type, const Mac& mac);

}  // namespace rockhopper::test::frames
