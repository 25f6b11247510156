// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_sender.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/ethernet.h"
#include "stack/mbuf_read.h"
#include "stack/random.h"
#include "stack/roce_locator.h"
#include "stack/udp_socket.h"

namespace rockhopper::stack {
namespace {

/// Pieces of the frames of a burst, in which each segment of a frame is one.
constexpr std::size_t kPieces = std::size_t{8} * kUdpBurst;
/// The ports from which RNICs send.
constexpr std::uint16_t kFirstSourcePort = 0xc000;
constexpr std::uint32_t kSourcePorts = 0x4000;
constexpr int kSourcePortAttempts = 64;

void put_control(msghdr& message, cmsghdr*& at, int level, int type, int value) {
  at->cmsg_level = level;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(at), &value, sizeof value);
  message.msg_controllen += CMSG_SPACE(sizeof value);
  at = reinterpret_cast<cmsghdr*>(reinterpret_cast<char*>(at) + CMSG_SPACE(sizeof value));
}

}  // namespace

struct UdpSender::Socket {
  IpAddress address{};
  Descriptor descriptor;

  [[nodiscard]] bool is_ipv4() const { return address.is_ipv4(); }
};

struct UdpSender::Messages : UdpMessages<kPieces> {};

UdpSender::UdpSender(std::uint16_t mtu) : mtu_(mtu), messages_(std::make_unique<Messages>()) {}

UdpSender::~UdpSender() = default;

KernelSocket UdpSender::socket_end() const {
  return {.mac = kUdpKernelMac, .source_port = source_port_};
}

Expected<std::unique_ptr<UdpSender>> UdpSender::open(const std::vector<IpAddress>& addresses,
                                                     std::uint16_t mtu, std::uint64_t seed) {
  std::unique_ptr<UdpSender> sender(new UdpSender(mtu));
  for (const IpAddress& address : addresses) {
    sender->sockets_.push_back({address, {}});
  }
  ROCKHOPPER_TRY(sender->choose_source_port(seed));
  return sender;
}

void UdpSender::let_go() noexcept {
  for (Socket& socket : sockets_) {
    socket.descriptor.reset();
  }
}

Expected<void> UdpSender::choose_source_port(std::uint64_t seed) {
  Random random(seed);
  for (int attempt = 1;; ++attempt) {
    source_port_ = static_cast<std::uint16_t>(kFirstSourcePort + random.below(kSourcePorts));
    auto bound = bind_all();
    if (bound || bound.error().code != ErrorCode::busy || attempt == kSourcePortAttempts) {
      return bound;
    }
  }
}

Expected<void> UdpSender::bind_all() {
  for (Socket& socket : sockets_) {
    // Nobody sends to it, and nobody reads it.
    ROCKHOPPER_TRY(socket.descriptor, open_udp(socket.is_ipv4()));
    const int error = bind_to(socket.descriptor, socket.address, source_port_);
    if (error != 0) return bind_failure(socket.address, source_port_, error);
  }
  return {};
}

const UdpSender::Socket* UdpSender::socket_of(const IpAddress& address) const {
  const auto found =
      std::find_if(sockets_.begin(), sockets_.end(),
                   [&address](const Socket& socket) { return socket.address == address; });
  return found == sockets_.end() ? nullptr : &*found;
}

/// What becomes of a frame: a datagram to `to` by `socket`, or an end that `drop` counts.
struct UdpSender::Outgoing {
  const Socket* socket = nullptr;
  Counter* drop = nullptr;
  UdpSocketAddress to{};
  std::uint32_t offset = 0;  ///< of the datagram's bytes
  int traffic_class = 0;
  int hop_limit = 0;
};

UdpSender::Outgoing UdpSender::look_at(const rte_mbuf* frame) {
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

void UdpSender::describe(const rte_mbuf* frame, const Outgoing& out) {
  msghdr& message = messages_->headers[described_].msg_hdr;
  messages_->addresses[described_] = out.to;
  message.msg_name = &messages_->addresses[described_];
  message.msg_namelen = length_of(out.to);
  message.msg_control = &messages_->controls[described_];
  message.msg_controllen = 0;
  const bool ipv4 = out.socket->is_ipv4();
  const int level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  cmsghdr* at = &messages_->controls[described_].header;
  put_control(message, at, level, ipv4 ? IP_TOS : IPV6_TCLASS, out.traffic_class);
  put_control(message, at, level, ipv4 ? IP_TTL : IPV6_HOPLIMIT, out.hop_limit);

  message.msg_iov = &messages_->pieces[pieces_];
  std::uint32_t skip = out.offset;
  for (const rte_mbuf* part = frame; part != nullptr; part = part->next) {
    const std::uint32_t skipped = std::min<std::uint32_t>(skip, part->data_len);
    skip -= skipped;
    if (skipped == part->data_len) continue;
    messages_->pieces[pieces_++] = {rte_pktmbuf_mtod_offset(part, void*, skipped),
                                    part->data_len - skipped};
  }
  message.msg_iovlen = static_cast<std::size_t>(&messages_->pieces[pieces_] - message.msg_iov);
  ++described_;
}

std::uint16_t UdpSender::tx_burst(rte_mbuf** packets, std::uint16_t count) {
  std::uint16_t done = 0;
  while (done < count) {
    // As many in a row as one socket sends.
    const Socket* sender = nullptr;
    described_ = 0;
    pieces_ = 0;
    while (done + described_ < count && described_ < kUdpBurst) {
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

std::uint16_t UdpSender::send_described(const Socket& socket, rte_mbuf* const* frames) {
  std::uint16_t taken = 0;
  while (taken < described_) {
    const int sent = ::sendmmsg(socket.descriptor.fd(), &messages_->headers[taken],
                                static_cast<unsigned>(described_ - taken), MSG_DONTWAIT);
    if (sent < 0 && may_succeed_later(errno)) break;
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

}  // namespace rockhopper::stack
