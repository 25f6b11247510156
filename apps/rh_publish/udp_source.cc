// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/udp_source.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

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

Error bad_address(const std::string& where) {
  return {ErrorCode::invalid_argument,
          fmt::format("udp:{}: expected is PORT, ADDRESS:PORT or [IPV6]:PORT", where)};
}

Expected<AddressInfo> resolve(const std::string& where) {
  const std::size_t colon = where.rfind(':');
  std::string host = colon == std::string::npos ? "" : where.substr(0, colon);
  const std::string port = colon == std::string::npos ? where : where.substr(colon + 1);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (port.empty() || (colon != std::string::npos && host.empty()) ||
      (!brackets && host.find(':') != std::string::npos)) {
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
  if (port.size() > 5 || std::stoul(port) > 65'535) return tl::make_unexpected(bad_address(where));
  return info;
}

/// 0, or -1 with errno.
int join_if_multicast(int fd, const addrinfo& info) {
  if (info.ai_family == AF_INET) {
    const auto& address = *reinterpret_cast<const sockaddr_in*>(info.ai_addr);
    if (!IN_MULTICAST(ntohl(address.sin_addr.s_addr))) return 0;
    const ip_mreqn group{.imr_multiaddr = address.sin_addr, .imr_address = {}, .imr_ifindex = 0};
    return ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
  }
  const auto& address = *reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
  if (!IN6_IS_ADDR_MULTICAST(&address.sin6_addr)) return 0;
  const ipv6_mreq group{.ipv6mr_multiaddr = address.sin6_addr,
                        .ipv6mr_interface = address.sin6_scope_id};
  return ::setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof group);
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
  ROCKHOPPER_TRY(auto info, resolve(where));
  FileDescriptor socket(::socket(info->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!socket.valid() || ::bind(socket.get(), info->ai_addr, info->ai_addrlen) != 0 ||
      join_if_multicast(socket.get(), *info) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on) != 0) {
    return fail(ErrorCode::io, "udp:{} cannot be listened to: {}", where, std::strerror(errno));
  }
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
