// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/udp_source.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace rockhopper::apps::publish {
namespace {

/// No datagram is longer.
constexpr std::size_t kDatagramMax = 65'536;
/// What may come while packets of the endpoint have their turn.
constexpr int kSocketBytes = 8 << 20;

struct AddressInfoDeleter {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
using AddressInfo = std::unique_ptr<addrinfo, AddressInfoDeleter>;

/// What --input says behind udp:.
struct Where {
  AddressInfo info;
  std::string interface;  ///< empty: the system's choice
};

Error bad_address(const std::string& where) {
  return {ErrorCode::invalid_argument,
          fmt::format("udp:{}: expected is PORT, ADDRESS:PORT or [IPV6]:PORT, behind a group also "
                      "@INTERFACE",
                      where)};
}

bool is_multicast(const addrinfo& info) {
  if (info.ai_family == AF_INET) {
    const auto& address = *reinterpret_cast<const sockaddr_in*>(info.ai_addr);
    return IN_MULTICAST(ntohl(address.sin_addr.s_addr));
  }
  const auto& address = *reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
  return IN6_IS_ADDR_MULTICAST(&address.sin6_addr);
}

Expected<Where> resolve(const std::string& where) {
  const std::size_t at = where.find('@');
  const std::string place = where.substr(0, at);
  std::string interface = at == std::string::npos ? "" : where.substr(at + 1);
  const std::size_t colon = place.rfind(':');
  std::string host = colon == std::string::npos ? "" : place.substr(0, colon);
  const std::string port = colon == std::string::npos ? place : place.substr(colon + 1);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (port.empty() || (colon != std::string::npos && host.empty()) ||
      (!brackets && host.find(':') != std::string::npos) ||
      (at != std::string::npos && interface.empty())) {
    return tl::make_unexpected(bad_address(where));
  }
  addrinfo hints{};
  hints.ai_family = host.empty() ? AF_INET : AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list) != 0) {
    return tl::make_unexpected(bad_address(where));
  }
  AddressInfo info(list);
  // getaddrinfo takes larger numbers, modulo 65536.
  if (port.size() > 5 || std::stoul(port) > 65'535 ||
      (!interface.empty() && !is_multicast(*info))) {
    return tl::make_unexpected(bad_address(where));
  }
  return Where{.info = std::move(info), .interface = std::move(interface)};
}

/// 0, or -1 with errno.
int join(int fd, const addrinfo& info, unsigned interface) {
  const int off = 0;
  if (info.ai_family == AF_INET) {
    const auto& address = *reinterpret_cast<const sockaddr_in*>(info.ai_addr);
    const ip_mreqn group{.imr_multiaddr = address.sin_addr,
                         .imr_address = {},
                         .imr_ifindex = static_cast<int>(interface)};
    // Not what others of this machine have joined on another interface.
    (void)::setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
    return ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
  }
  const auto& address = *reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
  const ipv6_mreq group{.ipv6mr_multiaddr = address.sin6_addr,
                        .ipv6mr_interface = interface != 0 ? interface : address.sin6_scope_id};
  (void)::setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof off);
  return ::setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof group);
}

/// Binds, and joins what is a group.
Expected<void> listen(int fd, const Where& at, const std::string& where) {
  const bool is_group = is_multicast(*at.info);
  unsigned interface = 0;
  if (!at.interface.empty()) {
    interface = ::if_nametoindex(at.interface.c_str());
    if (interface == 0) {
      return fail(ErrorCode::not_found, "udp:{}: there is no interface {}", where, at.interface);
    }
    // A group that is local to a link has its interface in its address, too.
    if (at.info->ai_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(at.info->ai_addr)->sin6_scope_id = interface;
    }
  }
  const int on = 1;
  // Each who listens to a group gets what is sent to it.
  if (is_group) (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, at.info->ai_addr, at.info->ai_addrlen) != 0 ||
      ::setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on) != 0) {
    return fail(ErrorCode::io, "udp:{} cannot be listened to: {}", where, std::strerror(errno));
  }
  if (!is_group || join(fd, *at.info, interface) == 0) return {};
  return fail(ErrorCode::io, "udp:{} cannot be joined: {}{}", where, std::strerror(errno),
              at.interface.empty() && errno == ENODEV
                  ? "; no route leads there: name the interface, behind an @"
                  : "");
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

UdpSource::UdpSource(FileDescriptor socket, std::uint16_t port, std::size_t payload_max)
    : socket_(std::move(socket)), port_(port), payload_max_(payload_max), buffer_(kDatagramMax) {}

Expected<std::unique_ptr<UdpSource>> UdpSource::open(const std::string& where,
                                                     std::size_t payload_max) {
  ROCKHOPPER_TRY(const auto at, resolve(where));
  FileDescriptor socket(::socket(at.info->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) {
    return fail(ErrorCode::io, "udp:{} cannot be listened to: {}", where, std::strerror(errno));
  }
  ROCKHOPPER_TRY(listen(socket.get(), at, where));
  // As much as the system allows.
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
  const std::uint16_t port = bound_port(socket.get());
  return std::unique_ptr<UdpSource>(new UdpSource(std::move(socket), port, payload_max));
}

Expected<Next> UdpSource::next(std::uint64_t, std::span<const std::byte>& payload) {
  for (;;) {
    iovec part{buffer_.data(), buffer_.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint32_t))> control;
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT);
    if (got < 0) {
      // Errors of a socket that only receives are told by ICMP: they are about somebody else.
      if (errno == EINTR || errno == ECONNREFUSED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Next::nothing;
      return fail(ErrorCode::io, "the UDP socket failed: {}", std::strerror(errno));
    }
    for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr;
         item = CMSG_NXTHDR(&header, item)) {
      if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SO_RXQ_OVFL) {
        std::uint32_t total = 0;
        std::memcpy(&total, CMSG_DATA(item), sizeof total);
        overflows_ = total;
      }
    }
    const auto length = static_cast<std::size_t>(got);
    if (length > payload_max_) {
      ++too_long_;
      continue;
    }
    payload = std::span<const std::byte>(buffer_).first(length);
    return Next::message;
  }
}

void UdpSource::visit_counters(const CounterVisit& visit) const {
  visit("too_long", too_long_);
  visit("socket_overflows", overflows_);
}

}  // namespace rockhopper::apps::publish
