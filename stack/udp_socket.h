// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <netinet/in.h>
#include <rte_ether.h>
#include <rte_udp.h>
#include <sys/socket.h>

#include "stack/descriptor.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

// What UdpSender and UdpReceiver share.

/// The frames that they make up lead from one of these stations to the other: both ends of the way
/// through the kernel. Locally administered.
inline constexpr rte_ether_addr kUdpOwnMac{{0x02, 0x52, 0x48, 0, 0, 1}};
inline constexpr rte_ether_addr kUdpKernelMac{{0x02, 0x52, 0x48, 0, 0, 2}};

inline constexpr std::size_t kUdpHeader = sizeof(rte_udp_hdr);

/// Datagrams that one system call moves.
inline constexpr std::uint16_t kUdpBurst = 32;

union UdpSocketAddress {
  sockaddr any;
  sockaddr_in ipv4;
  sockaddr_in6 ipv6;
};

[[nodiscard]] UdpSocketAddress to_socket_address(const IpAddress& address, std::uint16_t port);
[[nodiscard]] socklen_t length_of(const UdpSocketAddress& address);

/// The control messages that go with a datagram. The kernel writes up to four of them.
union UdpControl {
  cmsghdr header;
  std::array<char, 4 * CMSG_SPACE(sizeof(int))> room;
};

/// A burst as the kernel wants it, of up to kPieces stretches of memory.
template <std::size_t kPieces>
struct UdpMessages {
  std::array<mmsghdr, kUdpBurst> headers{};
  std::array<UdpSocketAddress, kUdpBurst> addresses{};
  std::array<UdpControl, kUdpBurst> controls{};
  std::array<iovec, kPieces> pieces{};
};

/// A UDP socket whose datagrams have no checksum, as they have an ICRC, and DF with an
/// identification of 0, and that tells TOS, TTL and drops of what it receives. It does not block.
/// Errors: `io`.
[[nodiscard]] Expected<Descriptor> open_udp(bool ipv4);

/// From now on the datagrams of the socket have UDP checksums, or have none again.
void use_checksums(const Descriptor& socket, bool ipv4, bool on);

/// Returns 0, or the number of the error, of which bind_failure() then tells.
[[nodiscard]] int bind_to(const Descriptor& socket, const IpAddress& address, std::uint16_t port);

[[nodiscard]] tl::unexpected<Error> bind_failure(const IpAddress& address, std::uint16_t port,
                                                 int error);

/// The kernel has no room or nothing now, or was interrupted: the same call may succeed later.
[[nodiscard]] bool may_succeed_later(int error);

}  // namespace rockhopper::stack
