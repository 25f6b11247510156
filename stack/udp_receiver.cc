// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_receiver.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <netinet/udp.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <sys/epoll.h>

#include "stack/ethernet.h"
#include "stack/ip_header.h"
#include "stack/roce_locator.h"
#include "stack/udp_socket.h"
#include "stack/uncancelled.h"

namespace rockhopper::stack {
namespace {

/// For a window of packets of each of some queue pairs. The kernel gives no more than
/// net.core.rmem_max, twice.
constexpr int kReceiveBuffer = 4 << 20;
constexpr std::size_t kLargestMessage = 1 << 16;

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
  /// Bytes of a datagram, by that MTU.
  [[nodiscard]] std::size_t longest(std::uint16_t mtu) const {
    return mtu + sizeof(rte_ether_hdr) - headers();
  }
};

/// What the kernel says of a message, whose datagrams have one length, but for the last.
struct UdpReceiver::Arrival {
  IpHeader ip{};
  rte_be16_t source_port = 0;
  std::uint32_t segment = 0;  ///< that length in bytes
};

/// A message begins in an mbuf, which a single datagram does not leave, and goes on in a buffer,
/// in which there is room for the beginning too.
struct UdpReceiver::Messages : UdpMessages<2 * kUdpBurst> {
  std::array<std::array<std::uint8_t, kLargestMessage>, kUdpBurst> buffers;
  Arrival arrival{};  ///< of the message in the middle of which it is
};

UdpReceiver::UdpReceiver(const UdpReceiverConfig& config)
    : pool_(config.pool),
      mtu_(config.mtu),
      mac_(config.mac),
      identification_(config.identification),
      messages_(std::make_unique_for_overwrite<Messages>()) {
  spare_.reserve(kUdpBurst);
}

UdpReceiver::~UdpReceiver() {
  for (rte_mbuf* packet : spare_) {
    rte_pktmbuf_free(packet);
  }
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
  // Older kernels than 5.0 do not: each datagram comes by itself then.
  const int joined = 1;
  (void)::setsockopt(opened.descriptor.fd(), IPPROTO_UDP, UDP_GRO, &joined, sizeof joined);
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
  std::uint16_t received = make_frames(packets, count);
  // Each socket is the first in turn, so that none starves.
  const std::size_t first = next_socket_;
  for (std::size_t i = 0; i < sockets_.size() && received < count && !has_taken(); ++i) {
    take_from(sockets_[(first + i) % sockets_.size()],
              static_cast<std::uint16_t>(count - received));
    received = static_cast<std::uint16_t>(
        received + make_frames(packets + received, static_cast<std::uint16_t>(count - received)));
  }
  next_socket_ = (first + 1) % sockets_.size();
  return received;
}

void UdpReceiver::take_from(Socket& socket, std::uint16_t most) {
  assert(!has_taken());
  std::erase(spare_, nullptr);
  const std::uint16_t wanted = std::min(most, kUdpBurst);
  while (spare_.size() < wanted) {
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_);
    if (packet == nullptr) break;
    spare_.push_back(packet);
  }
  const auto room = static_cast<unsigned>(std::min<std::size_t>(spare_.size(), wanted));
  if (room == 0) {
    counters_.rx_no_mbuf.add();
    return;
  }
  const std::size_t longest = socket.longest(mtu_);
  for (unsigned i = 0; i < room; ++i) {
    iovec* const pieces = &messages_->pieces[2 * i];
    pieces[0] = {rte_pktmbuf_mtod_offset(spare_[i], void*, socket.headers()), longest};
    pieces[1] = {&messages_->buffers[i][longest], kLargestMessage - longest};
    messages_->headers[i].msg_hdr = {.msg_name = &messages_->addresses[i],
                                     .msg_namelen = sizeof messages_->addresses[i],
                                     .msg_iov = pieces,
                                     .msg_iovlen = 2,
                                     .msg_control = &messages_->controls[i],
                                     .msg_controllen = sizeof messages_->controls[i],
                                     .msg_flags = 0};
  }
  const Uncancelled uncancelled;
  const int got =
      ::recvmmsg(socket.descriptor.fd(), messages_->headers.data(), room, MSG_DONTWAIT, nullptr);
  if (got < 0) {
    if (!may_succeed_later(errno)) counters_.rx_errors.add();
    return;
  }
  from_ = &socket;
  messages_taken_ = static_cast<std::size_t>(got);
  message_ = 0;
  in_message_ = 0;
}

std::uint16_t UdpReceiver::make_frames(rte_mbuf** packets, std::uint16_t count) {
  std::uint16_t made = 0;
  while (made < count && has_taken()) {
    if (in_message_ == 0 && !look_at_message()) {
      ++message_;
      continue;
    }
    const std::uint32_t segment = messages_->arrival.segment;
    const std::uint32_t left =
        messages_->headers[message_].msg_len - std::uint32_t{in_message_} * segment;
    const std::uint32_t length = std::min(segment, left);
    rte_mbuf* const packet = next_datagram(length);
    if (packet == nullptr) {
      counters_.rx_no_mbuf.add();
      break;
    }
    put_headers(packet, length);
    packets[made++] = packet;
    ++in_message_;
    if (length == left) end_message();
  }
  return made;
}

void UdpReceiver::end_message() {
  if (in_message_ > 1) counters_.rx_joined.add(in_message_);
  ++message_;
  in_message_ = 0;
}

bool UdpReceiver::look_at_message() {
  mmsghdr& got = messages_->headers[message_];
  const UdpSocketAddress& from = messages_->addresses[message_];
  const bool ipv4 = from_->is_ipv4();
  Arrival& arrival = messages_->arrival;
  arrival = {};
  IpHeader& ip = arrival.ip;
  ip.protocol = IPPROTO_UDP;
  ip.destination = from_->address;
  ip.source = ipv4 ? IpAddress::from_ipv4(rte_be_to_cpu_32(from.ipv4.sin_addr.s_addr))
                   : IpAddress::from_bytes(&from.ipv6.sin6_addr);
  arrival.source_port = ipv4 ? from.ipv4.sin_port : from.ipv6.sin6_port;
  for (const cmsghdr* at = CMSG_FIRSTHDR(&got.msg_hdr); at != nullptr;
       at = CMSG_NXTHDR(&got.msg_hdr, const_cast<cmsghdr*>(at))) {
    int value = 0;
    // The traffic class of IPv4 is one byte.
    std::memcpy(&value, CMSG_DATA(at), std::min(sizeof value, at->cmsg_len - CMSG_LEN(0)));
    if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SO_RXQ_OVFL) {
      const auto overflows = static_cast<std::uint32_t>(value);
      counters_.rx_overflows.add(overflows - from_->overflows);
      from_->overflows = overflows;
    } else if (at->cmsg_level == IPPROTO_UDP && at->cmsg_type == UDP_GRO) {
      arrival.segment = static_cast<std::uint32_t>(value);
    } else if (at->cmsg_type == (ipv4 ? IP_TOS : IPV6_TCLASS)) {
      ip.traffic_class = static_cast<std::uint8_t>(value);
    } else if (at->cmsg_type == (ipv4 ? IP_TTL : IPV6_HOPLIMIT)) {
      ip.hop_limit = static_cast<std::uint8_t>(value);
    }
  }
  const std::size_t longest = from_->longest(mtu_);
  const bool is_joined = arrival.segment > 0 && arrival.segment < got.msg_len;
  if (!is_joined) arrival.segment = got.msg_len;
  if ((got.msg_hdr.msg_flags & MSG_TRUNC) != 0 || arrival.segment > longest) {
    counters_.rx_too_long.add((got.msg_len + arrival.segment - 1) / arrival.segment);
    return false;
  }
  if (is_joined) {
    // All behind the first is in the buffer then.
    const std::size_t behind = std::min<std::size_t>(got.msg_len, longest) - arrival.segment;
    std::memcpy(&messages_->buffers[message_][arrival.segment],
                rte_pktmbuf_mtod_offset(spare_[message_], const std::uint8_t*,
                                        from_->headers() + arrival.segment),
                behind);
  }
  return true;
}

rte_mbuf* UdpReceiver::next_datagram(std::uint32_t length) {
  if (in_message_ == 0) return std::exchange(spare_[message_], nullptr);
  rte_mbuf* packet = nullptr;
  if (spare_.size() > messages_taken_) {
    packet = spare_.back();
    spare_.pop_back();
  } else {
    packet = rte_pktmbuf_alloc(pool_);
  }
  if (packet == nullptr) return nullptr;
  const std::size_t at = std::size_t{in_message_} * messages_->arrival.segment;
  std::memcpy(rte_pktmbuf_mtod_offset(packet, std::uint8_t*, from_->headers()),
              &messages_->buffers[message_][at], length);
  return packet;
}

void UdpReceiver::put_headers(rte_mbuf* packet, std::uint32_t length) {
  const Arrival& arrival = messages_->arrival;
  const bool ipv4 = from_->is_ipv4();
  const auto udp_length = static_cast<std::uint16_t>(kUdpHeader + length);
  IpHeader ip = arrival.ip;
  ip.payload_length = udp_length;
  auto* frame = reinterpret_cast<std::uint8_t*>(
      rte_pktmbuf_append(packet, static_cast<std::uint16_t>(from_->headers() + length)));
  assert(frame != nullptr);
  const std::uint8_t ethernet_length = emit_ethernet(
      frame, mac_, kUdpKernelMac, std::nullopt, ipv4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
  std::uint8_t* l3 = frame + ethernet_length;
  const std::uint8_t ip_length = emit_ip(ip, l3);
  const rte_udp_hdr udp{arrival.source_port, rte_cpu_to_be_16(kRoceUdpPort),
                        rte_cpu_to_be_16(udp_length), 0};
  std::memcpy(l3 + ip_length, &udp, sizeof udp);
  if (ipv4) identify({l3, std::size_t{ip_length} + udp_length});
  counters_.rx_packets.add();
  counters_.rx_bytes.add(packet->pkt_len);
}

/// The sender's kernel has mostly counted it up from 0 within joined datagrams.
void UdpReceiver::identify(std::span<std::uint8_t> packet) {
  const std::uint16_t identification = identification_.find(packet, in_message_);
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
