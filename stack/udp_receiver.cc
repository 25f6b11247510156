// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_receiver.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <rte_ip.h>
#include <rte_udp.h>
#include <sys/epoll.h>

#include "stack/ethernet.h"
#include "stack/ip_header.h"
#include "stack/roce_locator.h"
#include "stack/udp_socket.h"

namespace rockhopper::stack {
namespace {

/// For a window of packets of each of some queue pairs. The kernel gives no more than
/// net.core.rmem_max, twice.
constexpr int kReceiveBuffer = 4 << 20;

}  // namespace

struct UdpReceiver::Socket {
  IpAddress address{};
  Descriptor descriptor;
  std::uint32_t overflows = 0;  ///< as the kernel counts them

  [[nodiscard]] bool is_ipv4() const { return address.is_ipv4(); }
  [[nodiscard]] std::size_t headers() const {
    return sizeof(rte_ether_hdr) + (is_ipv4() ? sizeof(rte_ipv4_hdr) : sizeof(rte_ipv6_hdr)) +
           kUdpHeader;
  }
};

/// Each datagram comes in one piece.
struct UdpReceiver::Messages : UdpMessages<kUdpBurst> {};

UdpReceiver::UdpReceiver(const UdpReceiverConfig& config)
    : pool_(config.pool),
      mtu_(config.mtu),
      mac_(config.mac),
      identification_(config.identification),
      messages_(std::make_unique<Messages>()) {
  spare_.reserve(kUdpBurst);
}

UdpReceiver::~UdpReceiver() {
  rte_pktmbuf_free_bulk(spare_.data(), static_cast<unsigned>(spare_.size()));
}

Expected<std::unique_ptr<UdpReceiver>> UdpReceiver::open(const UdpReceiverConfig& config) {
  assert(rte_pktmbuf_data_room_size(config.pool) >=
         RTE_PKTMBUF_HEADROOM + sizeof(rte_ether_hdr) + config.mtu);
  std::unique_ptr<UdpReceiver> receiver(new UdpReceiver(config));
  receiver->ready_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!receiver->ready_) return fail(ErrorCode::io, "no epoll: {}", std::strerror(errno));
  for (const IpAddress& address : config.addresses) {
    ROCKHOPPER_TRY(receiver->open_socket(address));
  }
  return receiver;
}

void UdpReceiver::let_go() noexcept {
  for (Socket& socket : sockets_) {
    socket.descriptor.reset();
  }
  ready_.reset();
}

Expected<void> UdpReceiver::open_socket(const IpAddress& address) {
  Socket opened;
  opened.address = address;
  ROCKHOPPER_TRY(opened.descriptor, open_udp(address.is_ipv4()));
  // The first is for processes with the right to have more than others.
  for (const int option : {SO_RCVBUFFORCE, SO_RCVBUF}) {
    if (::setsockopt(opened.descriptor.fd(), SOL_SOCKET, option, &kReceiveBuffer,
                     sizeof kReceiveBuffer) == 0) {
      break;
    }
  }
  const int error = bind_to(opened.descriptor, address, kRoceUdpPort);
  if (error != 0) return bind_failure(address, kRoceUdpPort, error);
  epoll_event readable{.events = EPOLLIN, .data = {}};
  if (::epoll_ctl(ready_.fd(), EPOLL_CTL_ADD, opened.descriptor.fd(), &readable) != 0) {
    return fail(ErrorCode::io, "epoll: {}", std::strerror(errno));
  }
  sockets_.push_back(std::move(opened));
  return {};
}

std::uint16_t UdpReceiver::rx_burst(rte_mbuf** packets, std::uint16_t count) {
  std::uint16_t received = 0;
  // Each socket is the first in turn, so that none starves.
  const std::size_t first = next_socket_;
  for (std::size_t i = 0; i < sockets_.size() && received < count; ++i) {
    Socket& socket = sockets_[(first + i) % sockets_.size()];
    received = static_cast<std::uint16_t>(
        received +
        receive_from(socket, packets + received, static_cast<std::uint16_t>(count - received)));
  }
  next_socket_ = (first + 1) % sockets_.size();
  return received;
}

std::uint16_t UdpReceiver::receive_from(Socket& socket, rte_mbuf** packets, std::uint16_t count) {
  const std::uint16_t wanted = std::min(count, kUdpBurst);
  while (spare_.size() < wanted) {
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_);
    if (packet == nullptr) break;
    spare_.push_back(packet);
  }
  const auto room = static_cast<unsigned>(std::min<std::size_t>(spare_.size(), wanted));
  if (room == 0) {
    counters_.rx_no_mbuf.add();
    return 0;
  }
  // As much as the MTU allows; the kernel tells of what is longer.
  const std::size_t longest = mtu_ + sizeof(rte_ether_hdr) - socket.headers();
  for (unsigned i = 0; i < room; ++i) {
    messages_->pieces[i] = {rte_pktmbuf_mtod_offset(spare_[i], void*, socket.headers()), longest};
    messages_->headers[i].msg_hdr = {.msg_name = &messages_->addresses[i],
                                     .msg_namelen = sizeof messages_->addresses[i],
                                     .msg_iov = &messages_->pieces[i],
                                     .msg_iovlen = 1,
                                     .msg_control = &messages_->controls[i],
                                     .msg_controllen = sizeof messages_->controls[i],
                                     .msg_flags = 0};
  }
  const int got =
      ::recvmmsg(socket.descriptor.fd(), messages_->headers.data(), room, MSG_DONTWAIT, nullptr);
  if (got < 0) {
    if (!may_succeed_later(errno)) counters_.rx_errors.add();
    return 0;
  }
  std::uint16_t received = 0;
  std::size_t unused = 0;
  for (std::size_t i = 0; i < spare_.size(); ++i) {
    if (i < static_cast<std::size_t>(got) && make_frame(socket, spare_[i], i)) {
      packets[received++] = spare_[i];
    } else {
      spare_[unused++] = spare_[i];
    }
  }
  spare_.resize(unused);
  return received;
}

bool UdpReceiver::make_frame(Socket& socket, rte_mbuf* packet, std::size_t number) {
  mmsghdr& got = messages_->headers[number];
  const UdpSocketAddress& from = messages_->addresses[number];
  const bool ipv4 = socket.is_ipv4();
  IpHeader ip;
  ip.protocol = IPPROTO_UDP;
  ip.destination = socket.address;
  ip.source = ipv4 ? IpAddress::from_ipv4(rte_be_to_cpu_32(from.ipv4.sin_addr.s_addr))
                   : IpAddress::from_bytes(&from.ipv6.sin6_addr);
  for (const cmsghdr* at = CMSG_FIRSTHDR(&got.msg_hdr); at != nullptr;
       at = CMSG_NXTHDR(&got.msg_hdr, const_cast<cmsghdr*>(at))) {
    int value = 0;
    // The traffic class of IPv4 is one byte.
    std::memcpy(&value, CMSG_DATA(at), std::min(sizeof value, at->cmsg_len - CMSG_LEN(0)));
    if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SO_RXQ_OVFL) {
      const auto overflows = static_cast<std::uint32_t>(value);
      counters_.rx_overflows.add(overflows - socket.overflows);
      socket.overflows = overflows;
    } else if (at->cmsg_type == (ipv4 ? IP_TOS : IPV6_TCLASS)) {
      ip.traffic_class = static_cast<std::uint8_t>(value);
    } else if (at->cmsg_type == (ipv4 ? IP_TTL : IPV6_HOPLIMIT)) {
      ip.hop_limit = static_cast<std::uint8_t>(value);
    }
  }
  if ((got.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
    counters_.rx_too_long.add();
    return false;
  }
  const auto length = static_cast<std::uint16_t>(kUdpHeader + got.msg_len);
  ip.payload_length = length;
  auto* frame = reinterpret_cast<std::uint8_t*>(
      rte_pktmbuf_append(packet, static_cast<std::uint16_t>(socket.headers() + got.msg_len)));
  assert(frame != nullptr);
  const std::uint8_t ethernet_length = emit_ethernet(
      frame, mac_, kUdpKernelMac, std::nullopt, ipv4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
  std::uint8_t* l3 = frame + ethernet_length;
  const std::uint8_t ip_length = emit_ip(ip, l3);
  const rte_udp_hdr udp{ipv4 ? from.ipv4.sin_port : from.ipv6.sin6_port,
                        rte_cpu_to_be_16(kRoceUdpPort), rte_cpu_to_be_16(length), 0};
  std::memcpy(l3 + ip_length, &udp, sizeof udp);
  if (ipv4 && identification_ != nullptr) identify({l3, std::size_t{ip_length} + length});
  counters_.rx_packets.add();
  counters_.rx_bytes.add(packet->pkt_len);
  return true;
}

void UdpReceiver::identify(std::span<std::uint8_t> packet) {
  const std::uint16_t identification = identification_(packet);
  if (identification == 0) return;
  counters_.rx_identified.add();
  rte_ipv4_hdr ip;
  std::memcpy(&ip, packet.data(), sizeof ip);
  ip.packet_id = rte_cpu_to_be_16(identification);
  ip.hdr_checksum = 0;
  ip.hdr_checksum = rte_ipv4_cksum(&ip);
  std::memcpy(packet.data(), &ip, sizeof ip);
}

}  // namespace rockhopper::stack
