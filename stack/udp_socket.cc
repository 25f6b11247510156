// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include <rte_byteorder.h>

#include "stack/kernel_addresses.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif

namespace rockhopper::stack {
namespace {

struct SocketOption {
  int level;
  int name;
  int value;
};

bool set_option(const Descriptor& socket, const SocketOption& option) {
  return ::setsockopt(socket.fd(), option.level, option.name, &option.value, sizeof option.value) ==
         0;
}

}  // namespace

void use_checksums(const Descriptor& socket, bool ipv4, bool on) {
  const SocketOption option = ipv4 ? SocketOption{SOL_SOCKET, SO_NO_CHECK, on ? 0 : 1}
                                   : SocketOption{IPPROTO_UDP, UDP_NO_CHECK6_TX, on ? 0 : 1};
  // The kernel has known both for long. It would refuse large datagrams, or send sums needlessly.
  (void)set_option(socket, option);
}

UdpSocketAddress to_socket_address(const IpAddress& address, std::uint16_t port) {
  UdpSocketAddress result{};
  if (address.is_ipv4()) {
    result.ipv4.sin_family = AF_INET;
    result.ipv4.sin_port = rte_cpu_to_be_16(port);
    result.ipv4.sin_addr.s_addr = rte_cpu_to_be_32(address.ipv4());
  } else {
    result.ipv6.sin6_family = AF_INET6;
    result.ipv6.sin6_port = rte_cpu_to_be_16(port);
    std::memcpy(&result.ipv6.sin6_addr, address.bytes.data(), address.bytes.size());
  }
  return result;
}

socklen_t length_of(const UdpSocketAddress& address) {
  return address.any.sa_family == AF_INET ? sizeof address.ipv4 : sizeof address.ipv6;
}

Expected<Descriptor> open_udp(bool ipv4) {
  Descriptor opened(
      ::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // PROBE: the packets have DF, and its own MTU is the caller's affair.
  constexpr std::array<SocketOption, 5> kIpv4{{{SOL_SOCKET, SO_NO_CHECK, 1},
                                               {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE},
                                               {IPPROTO_IP, IP_RECVTOS, 1},
                                               {IPPROTO_IP, IP_RECVTTL, 1},
                                               {SOL_SOCKET, SO_RXQ_OVFL, 1}}};
  constexpr std::array<SocketOption, 7> kIpv6{
      {{IPPROTO_IPV6, IPV6_V6ONLY, 1},
       {IPPROTO_UDP, UDP_NO_CHECK6_TX, 1},
       {IPPROTO_UDP, UDP_NO_CHECK6_RX, 1},
       {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE},
       {IPPROTO_IPV6, IPV6_RECVTCLASS, 1},
       {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
       {SOL_SOCKET, SO_RXQ_OVFL, 1}}};
  const std::span<const SocketOption> options =
      ipv4 ? std::span<const SocketOption>(kIpv4) : std::span<const SocketOption>(kIpv6);
  const bool ready = opened && std::all_of(options.begin(), options.end(), [&](const auto& option) {
                       return set_option(opened, option);
                     });
  if (ready) return opened;
  return fail(ErrorCode::io, "no UDP socket over {}: {}", ipv4 ? "IPv4" : "IPv6",
              std::strerror(errno));
}

int bind_to(const Descriptor& socket, const IpAddress& address, std::uint16_t port) {
  UdpSocketAddress own = to_socket_address(address, port);
  const std::uint32_t interface = address.is_ipv4() ? 0 : interface_of(address);
  if (interface != 0) {
    // The kernel may still look for others that have the address, for a second.
    (void)set_option(socket, {IPPROTO_IPV6, IPV6_FREEBIND, 1});
    if (address.is_link_local()) own.ipv6.sin6_scope_id = interface;
  }
  return ::bind(socket.fd(), &own.any, length_of(own)) == 0 ? 0 : errno;
}

tl::unexpected<Error> bind_failure(const IpAddress& address, std::uint16_t port, int error) {
  if (error == EADDRINUSE) {
    return fail(ErrorCode::busy,
                "UDP port {} of {} is in use: by another program, see ss -ulnp, or by the kernel's "
                "Soft-RoCE, see rdma link",
                port, address.to_string());
  }
  if (error == EADDRNOTAVAIL) {
    return fail(ErrorCode::not_found, "{} is no address of this machine, see ip address",
                address.to_string());
  }
  return fail(ErrorCode::io, "UDP port {} of {}: {}", port, address.to_string(),
              std::strerror(error));
}

bool may_succeed_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM ||
         error == EINTR;
}

}  // namespace rockhopper::stack
