// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_link.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <netinet/in.h>
#include <netinet/udp.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <sys/socket.h>

#include "stack/descriptor.h"
#include "stack/ethernet.h"
#include "stack/ip_header.h"
#include "stack/mbuf_read.h"
#include "stack/random.h"
#include "stack/roce_locator.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#define UDP_NO_CHECK6_RX 102
#endif

namespace rockhopper::stack {

union UdpSocketAddress {
  sockaddr any;
  sockaddr_in ipv4;
  sockaddr_in6 ipv6;
};

/// The control messages that go with a datagram. The kernel writes up to three of them.
union UdpControl {
  cmsghdr header;
  std::array<char, 3 * CMSG_SPACE(sizeof(int))> room;
};

namespace {

constexpr std::uint16_t kBurst = 32;
/// Pieces of the frames of a burst, in which each segment of a frame is one.
constexpr std::size_t kPieces = std::size_t{8} * kBurst;
/// For a window of packets of each of some queue pairs. The kernel gives no more than
/// net.core.rmem_max, twice.
constexpr int kReceiveBuffer = 4 << 20;
constexpr std::size_t kUdpHeader = sizeof(rte_udp_hdr);
/// The ports from which RNICs send.
constexpr std::uint16_t kFirstSourcePort = 0xc000;
constexpr std::uint32_t kSourcePorts = 0x4000;
constexpr int kSourcePortAttempts = 64;

// Locally administered: both ends of the way through the kernel.
constexpr rte_ether_addr kOwnMac{{0x02, 0x52, 0x48, 0, 0, 1}};
constexpr rte_ether_addr kKernelMac{{0x02, 0x52, 0x48, 0, 0, 2}};

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

void put_control(msghdr& message, cmsghdr*& at, int level, int type, int value) {
  at->cmsg_level = level;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(at), &value, sizeof value);
  message.msg_controllen += CMSG_SPACE(sizeof value);
  at = reinterpret_cast<cmsghdr*>(reinterpret_cast<char*>(at) + CMSG_SPACE(sizeof value));
}

/// The kernel has no room now, or was interrupted: the same call may succeed later.
bool is_full(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM ||
         error == EINTR;
}

}  // namespace

struct UdpLink::Socket {
  IpAddress address{};
  Descriptor receiver;
  Descriptor sender;
  std::uint32_t overflows = 0;  ///< as the kernel counts them

  [[nodiscard]] bool is_ipv4() const { return address.is_ipv4(); }
  [[nodiscard]] std::size_t headers() const {
    return sizeof(rte_ether_hdr) + (is_ipv4() ? sizeof(rte_ipv4_hdr) : sizeof(rte_ipv6_hdr)) +
           kUdpHeader;
  }
};

/// A burst as the kernel wants it.
struct UdpLink::Messages {
  std::array<mmsghdr, kBurst> headers{};
  std::array<UdpSocketAddress, kBurst> addresses{};
  std::array<UdpControl, kBurst> controls{};
  std::array<iovec, kPieces> pieces{};
};

UdpLink::UdpLink(const UdpLinkConfig& config)
    : pool_(config.pool),
      mtu_(config.mtu),
      identification_(config.identification),
      tx_(std::make_unique<Messages>()),
      rx_(std::make_unique<Messages>()) {
  spare_.reserve(kBurst);
}

UdpLink::~UdpLink() { rte_pktmbuf_free_bulk(spare_.data(), static_cast<unsigned>(spare_.size())); }

KernelSocket UdpLink::socket_end() const {
  return {.mac = kKernelMac, .source_port = source_port_};
}

rte_ether_addr UdpLink::mac() const { return kOwnMac; }

Expected<std::unique_ptr<UdpLink>> UdpLink::open(const UdpLinkConfig& config) {
  if (config.addresses.empty()) {
    return fail(ErrorCode::invalid_argument, "a UDP link needs an own address");
  }
  assert(rte_pktmbuf_data_room_size(config.pool) >=
         RTE_PKTMBUF_HEADROOM + sizeof(rte_ether_hdr) + config.mtu);
  std::unique_ptr<UdpLink> link(new UdpLink(config));
  for (const IpAddress& address : config.addresses) {
    ROCKHOPPER_TRY(link->open_socket(address));
  }
  ROCKHOPPER_TRY(link->choose_source_port(config.seed));
  return link;
}

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

Expected<Descriptor> open_udp(bool ipv4) {
  Descriptor opened(
      ::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // RoCEv2 has an ICRC and no checksum of UDP. PROBE: the packets have DF, and its own MTU is the
  // caller's affair.
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

/// Returns 0, or the number of the error.
int bind_to(const Descriptor& socket, const IpAddress& address, std::uint16_t port) {
  const UdpSocketAddress own = to_socket_address(address, port);
  return ::bind(socket.fd(), &own.any, length_of(own)) == 0 ? 0 : errno;
}

}  // namespace

Expected<void> UdpLink::open_socket(const IpAddress& address) {
  Socket opened;
  opened.address = address;
  ROCKHOPPER_TRY(opened.receiver, open_udp(address.is_ipv4()));
  (void)set_option(opened.receiver, {SOL_SOCKET, SO_RCVBUF, kReceiveBuffer});
  const int error = bind_to(opened.receiver, address, kRoceUdpPort);
  if (error == EADDRINUSE) {
    return fail(ErrorCode::busy,
                "UDP port {} of {} is in use: by another program, see ss -ulnp, or by the kernel's "
                "Soft-RoCE, see rdma link",
                kRoceUdpPort, address.to_string());
  }
  if (error == EADDRNOTAVAIL) {
    return fail(ErrorCode::not_found, "{} is no address of this machine, see ip address",
                address.to_string());
  }
  if (error != 0) {
    return fail(ErrorCode::io, "UDP port {} of {}: {}", kRoceUdpPort, address.to_string(),
                std::strerror(error));
  }
  sockets_.push_back(std::move(opened));
  return {};
}

Expected<void> UdpLink::choose_source_port(std::uint64_t seed) {
  Random random(seed);
  int error = 0;
  for (int attempt = 0; attempt < kSourcePortAttempts; ++attempt) {
    const auto port = static_cast<std::uint16_t>(kFirstSourcePort + random.below(kSourcePorts));
    error = 0;
    for (Socket& socket : sockets_) {
      // Nobody sends to it, and nobody reads it.
      ROCKHOPPER_TRY(socket.sender, open_udp(socket.is_ipv4()));
      error = bind_to(socket.sender, socket.address, port);
      if (error != 0) break;
    }
    if (error == 0) {
      source_port_ = port;
      return {};
    }
  }
  return fail(ErrorCode::io, "no UDP port from {} to send from: {}", kFirstSourcePort,
              std::strerror(error));
}

const UdpLink::Socket* UdpLink::socket_of(const IpAddress& address) const {
  const auto found =
      std::find_if(sockets_.begin(), sockets_.end(),
                   [&address](const Socket& socket) { return socket.address == address; });
  return found == sockets_.end() ? nullptr : &*found;
}

// Sending.

/// What becomes of a frame: a datagram to `to` by `socket`, or an end that `drop` counts.
struct UdpLink::Outgoing {
  const Socket* socket = nullptr;
  Counter* drop = nullptr;
  UdpSocketAddress to{};
  std::uint32_t offset = 0;  ///< of the datagram's bytes
  int traffic_class = 0;
  int hop_limit = 0;
};

UdpLink::Outgoing UdpLink::look_at(const rte_mbuf* frame) {
  Outgoing out;
  out.drop = &counters_.tx_not_roce;
  const auto ethernet = read_at<rte_ether_hdr>(frame, 0);
  if (!ethernet) return out;
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = 0;
  if (ethernet->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)) {
    const auto ip = read_at<rte_ipv4_hdr>(frame, sizeof(rte_ether_hdr));
    if (!ip) return out;
    source = IpAddress::from_ipv4(rte_be_to_cpu_32(ip->src_addr));
    destination = IpAddress::from_ipv4(rte_be_to_cpu_32(ip->dst_addr));
    protocol = ip->next_proto_id;
    out.offset = sizeof(rte_ether_hdr) + rte_ipv4_hdr_len(&*ip);
    out.traffic_class = ip->type_of_service;
    out.hop_limit = ip->time_to_live;
  } else if (ethernet->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6)) {
    const auto ip = read_at<rte_ipv6_hdr>(frame, sizeof(rte_ether_hdr));
    if (!ip) return out;
    source = IpAddress::from_bytes(&ip->src_addr);
    destination = IpAddress::from_bytes(&ip->dst_addr);
    protocol = ip->proto;
    out.offset = sizeof(rte_ether_hdr) + sizeof(rte_ipv6_hdr);
    out.traffic_class =
        static_cast<std::uint8_t>(rte_be_to_cpu_32(ip->vtc_flow) >> RTE_IPV6_HDR_TC_SHIFT);
    out.hop_limit = ip->hop_limits;
  }
  const auto udp = read_at<rte_udp_hdr>(frame, out.offset);
  if (protocol != IPPROTO_UDP || !udp || udp->dst_port != rte_cpu_to_be_16(kRoceUdpPort)) {
    return out;
  }
  out.offset += static_cast<std::uint32_t>(kUdpHeader);
  out.to = to_socket_address(destination, kRoceUdpPort);
  if (frame->pkt_len > sizeof(rte_ether_hdr) + mtu_ || frame->nb_segs > kPieces) {
    out.drop = &counters_.tx_too_long;
  } else {
    out.socket = socket_of(source);
    out.drop = &counters_.tx_not_own;
  }
  return out;
}

void UdpLink::describe(const rte_mbuf* frame, const Outgoing& out) {
  msghdr& message = tx_->headers[described_].msg_hdr;
  tx_->addresses[described_] = out.to;
  message.msg_name = &tx_->addresses[described_];
  message.msg_namelen = length_of(out.to);
  message.msg_control = &tx_->controls[described_];
  message.msg_controllen = 0;
  const bool ipv4 = out.socket->is_ipv4();
  const int level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  cmsghdr* at = &tx_->controls[described_].header;
  put_control(message, at, level, ipv4 ? IP_TOS : IPV6_TCLASS, out.traffic_class);
  put_control(message, at, level, ipv4 ? IP_TTL : IPV6_HOPLIMIT, out.hop_limit);

  message.msg_iov = &tx_->pieces[pieces_];
  std::uint32_t skip = out.offset;
  for (const rte_mbuf* part = frame; part != nullptr; part = part->next) {
    const std::uint32_t skipped = std::min<std::uint32_t>(skip, part->data_len);
    skip -= skipped;
    if (skipped == part->data_len) continue;
    tx_->pieces[pieces_++] = {rte_pktmbuf_mtod_offset(part, void*, skipped),
                              part->data_len - skipped};
  }
  message.msg_iovlen = static_cast<std::size_t>(&tx_->pieces[pieces_] - message.msg_iov);
  ++described_;
}

std::uint16_t UdpLink::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t) {
  std::uint16_t done = 0;
  while (done < count) {
    // As many in a row as one socket sends.
    const Socket* sender = nullptr;
    described_ = 0;
    pieces_ = 0;
    while (done + described_ < count && described_ < kBurst) {
      const rte_mbuf* frame = packets[done + described_];
      const Outgoing out = look_at(frame);
      if (described_ > 0 && (out.socket != sender || pieces_ + frame->nb_segs > kPieces)) break;
      if (out.socket == nullptr) {
        out.drop->add();
        ++done;
        continue;
      }
      sender = out.socket;
      describe(frame, out);
    }
    if (described_ == 0) break;
    const std::uint16_t taken = send_described(*sender, packets + done);
    done = static_cast<std::uint16_t>(done + taken);
    if (taken < described_) {
      counters_.tx_waits.add();
      break;
    }
  }
  rte_pktmbuf_free_bulk(packets, done);
  return done;
}

std::uint16_t UdpLink::send_described(const Socket& socket, rte_mbuf* const* frames) {
  std::uint16_t taken = 0;
  while (taken < described_) {
    const int sent = ::sendmmsg(socket.sender.fd(), &tx_->headers[taken],
                                static_cast<unsigned>(described_ - taken), MSG_DONTWAIT);
    if (sent < 0 && is_full(errno)) break;
    if (sent < 0) {
      // It is about the first one alone.
      counters_.tx_refused.add();
      ++taken;
      continue;
    }
    for (int i = 0; i < sent; ++i) {
      counters_.tx_packets.add();
      counters_.tx_bytes.add(frames[taken++]->pkt_len);
    }
  }
  return taken;
}

// Receiving.

std::uint16_t UdpLink::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t) {
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

std::uint16_t UdpLink::receive_from(Socket& socket, rte_mbuf** packets, std::uint16_t count) {
  const std::uint16_t wanted = std::min(count, kBurst);
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
    rx_->pieces[i] = {rte_pktmbuf_mtod_offset(spare_[i], void*, socket.headers()), longest};
    rx_->headers[i].msg_hdr = {.msg_name = &rx_->addresses[i],
                               .msg_namelen = sizeof rx_->addresses[i],
                               .msg_iov = &rx_->pieces[i],
                               .msg_iovlen = 1,
                               .msg_control = &rx_->controls[i],
                               .msg_controllen = sizeof rx_->controls[i],
                               .msg_flags = 0};
  }
  const int got =
      ::recvmmsg(socket.receiver.fd(), rx_->headers.data(), room, MSG_DONTWAIT, nullptr);
  if (got < 0) {
    if (!is_full(errno)) counters_.rx_errors.add();
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

bool UdpLink::make_frame(Socket& socket, rte_mbuf* packet, std::size_t number) {
  mmsghdr& got = rx_->headers[number];
  const UdpSocketAddress& from = rx_->addresses[number];
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
      frame, kOwnMac, kKernelMac, std::nullopt, ipv4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
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

void UdpLink::identify(std::span<std::uint8_t> packet) {
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
