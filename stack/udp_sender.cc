// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_sender.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <netinet/udp.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/ethernet.h"
#include "stack/mbuf_read.h"
#include "stack/random.h"
#include "stack/roce_locator.h"
#include "stack/udp_socket.h"
#include "stack/uncancelled.h"

namespace rockhopper::stack {
namespace {

/// Pieces of the frames of a burst, in which each segment of a frame is one.
constexpr std::size_t kPieces = std::size_t{8} * kUdpBurst;
/// The ports from which RNICs send.
constexpr std::uint16_t kFirstSourcePort = 0xc000;
constexpr std::uint32_t kSourcePorts = 0x4000;
constexpr int kSourcePortAttempts = 64;

/// Bytes of one that the kernel is to cut, by the length field of IP.
constexpr std::uint32_t kLargestDatagram = 0xffff - sizeof(rte_ipv4_hdr) - kUdpHeader;
/// No RoCEv2 packet is shorter: BTH and ICRC.
constexpr std::uint32_t kShortestJoined = 16;
/// Where the kernel does not cut (the device computes no checksums, or the way is for shorter
/// packets), or what it cuts does not arrive, so many frames go by themselves before it is tried
/// again; twice as many the next time.
constexpr std::uint32_t kFirstApart = 4096;
constexpr std::uint32_t kMostApart = 1 << 20;

/// `psn` is no later one than `last`.
bool is_behind(std::uint32_t psn, std::uint32_t last) {
  constexpr std::uint32_t kPsns = 1 << 24;
  return (psn - last - 1) % kPsns >= kPsns / 2;
}

constexpr std::uint64_t kHashFactor = 0x9e3779b97f4a7c15;  // 2^64 by the golden ratio

/// The part of an address in which hosts of one network differ.
std::uint64_t load_tail(const IpAddress& address) {
  std::uint32_t tail = 0;
  std::memcpy(&tail, address.bytes.data() + address.bytes.size() - sizeof tail, sizeof tail);
  return tail;
}

bool refuses_to_cut(int error) {
  return error == EIO || error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP;
}

template <typename Value>
void put_control(msghdr& message, int level, int type, Value value) {
  auto* at =
      reinterpret_cast<cmsghdr*>(static_cast<char*>(message.msg_control) + message.msg_controllen);
  at->cmsg_level = level;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(at), &value, sizeof value);
  message.msg_controllen += CMSG_SPACE(sizeof value);
}

}  // namespace

struct UdpSender::Socket {
  IpAddress address{};
  Descriptor descriptor;
  bool has_checksums = false;

  [[nodiscard]] bool is_ipv4() const { return address.is_ipv4(); }
};

/// This describes frames that go to the kernel together.
struct UdpSender::Message {
  std::uint32_t segment = 0;      ///< bytes of each datagram but the last
  std::uint32_t last_length = 0;  ///< of the last
  std::uint32_t bytes = 0;
  std::uint16_t frames = 0;
  int traffic_class = 0;
  int hop_limit = 0;
};

struct UdpSender::Messages : UdpMessages<kPieces> {
  std::array<Message, kUdpBurst> made{};
  std::array<std::uint32_t, kUdpBurst> icrcs{};  ///< of frames that are not as they were
};

UdpSender::UdpSender(std::uint16_t mtu, const IdentificationRules* identification)
    : mtu_(mtu),
      identification_(identification),
      messages_(std::make_unique<Messages>()),
      next_apart_(kFirstApart) {}

UdpSender::~UdpSender() = default;

KernelSocket UdpSender::socket_end() const {
  return {.mac = kUdpKernelMac, .source_port = source_port_};
}

Expected<std::unique_ptr<UdpSender>> UdpSender::open(const std::vector<IpAddress>& addresses,
                                                     std::uint16_t mtu, std::uint64_t seed,
                                                     const IdentificationRules* identification) {
  std::unique_ptr<UdpSender> sender(new UdpSender(mtu, identification));
  for (const IpAddress& address : addresses) {
    sender->sockets_.push_back({.address = address, .descriptor = {}});
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

UdpSender::Socket* UdpSender::socket_of(const IpAddress& address) {
  const auto found =
      std::find_if(sockets_.begin(), sockets_.end(),
                   [&address](const Socket& socket) { return socket.address == address; });
  return found == sockets_.end() ? nullptr : &*found;
}

/// What becomes of a frame: a datagram to `to` by `socket`, or an end that `drop` counts.
struct UdpSender::Outgoing {
  Socket* socket = nullptr;
  Counter* drop = nullptr;
  UdpSocketAddress to{};
  std::uint32_t offset = 0;  ///< of the datagram's bytes
  std::uint32_t length = 0;  ///< of these bytes
  std::uint32_t flow = 0;    ///< of packets whose PSNs follow each other, a hash; 0: of none
  std::uint32_t psn = 0;
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
  out.length = frame->pkt_len - out.offset;
  const auto bth = read_bth(frame, out.offset);
  if (const auto sequence = bth ? psn_sequence(*bth) : std::nullopt) {
    const std::uint64_t place =
        load_tail(destination) << 25 ^ bth->destination_qpn << 1 ^ *sequence;
    out.flow = 1 | static_cast<std::uint32_t>(place * kHashFactor >> 32);
    out.psn = bth->psn;
  }
  out.to = to_socket_address(destination, kRoceUdpPort);
  if (frame->pkt_len > sizeof(rte_ether_hdr) + mtu_ || frame->nb_segs >= kPieces) {
    out.drop = &counters_.tx_too_long;
  } else {
    out.socket = socket_of(source);
    out.drop = &counters_.tx_not_own;
  }
  return out;
}

UdpSender::JoinedFlow& UdpSender::joined_flow(const Outgoing& out) {
  return joined_flows_[out.flow / 2 % joined_flows_.size()];
}

void UdpSender::keep_apart() {
  // It has done for long: then it is no more likely to fail than at first.
  if (joined_ > kMostApart) next_apart_ = kFirstApart;
  joined_ = 0;
  apart_ = next_apart_;
  next_apart_ = std::min(2 * next_apart_, kMostApart);
}

void UdpSender::describe(const rte_mbuf* frame, const Outgoing& out) {
  const JoinedFlow& before = joined_flow(out);
  if (apart_ == 0 && out.flow != 0 && before.flow == out.flow && is_behind(out.psn, before.psn)) {
    counters_.tx_repeats.add();
    keep_apart();
  }
  if (joins(out)) {
    join_message(frame, out);
  } else {
    begin_message(out);
    add_pieces(frame, out.offset, out.length);
  }
  Message& last = messages_->made[described_ - 1];
  last.bytes += out.length;
  last.last_length = out.length;
  ++last.frames;
  ++frames_;
  if (apart_ > 0) --apart_;
  msghdr& header = messages_->headers[described_ - 1].msg_hdr;
  header.msg_iovlen = static_cast<std::size_t>(&messages_->pieces[pieces_] - header.msg_iov);
}

bool UdpSender::joins(const Outgoing& out) const {
  if (described_ == 0 || apart_ > 0) return false;
  const Message& last = messages_->made[described_ - 1];
  return last.last_length == last.segment && out.length <= last.segment &&
         out.length >= kShortestJoined && last.bytes + out.length <= kLargestDatagram &&
         out.traffic_class == last.traffic_class && out.hop_limit == last.hop_limit &&
         (!out.socket->is_ipv4() || identification_.has_rules()) &&
         std::memcmp(&out.to, &messages_->addresses[described_ - 1], length_of(out.to)) == 0;
}

void UdpSender::begin_message(const Outgoing& out) {
  msghdr& header = messages_->headers[described_].msg_hdr;
  messages_->addresses[described_] = out.to;
  header.msg_name = &messages_->addresses[described_];
  header.msg_namelen = length_of(out.to);
  header.msg_control = &messages_->controls[described_];
  header.msg_controllen = 0;
  header.msg_iov = &messages_->pieces[pieces_];
  const bool ipv4 = out.socket->is_ipv4();
  const int level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  put_control(header, level, ipv4 ? IP_TOS : IPV6_TCLASS, out.traffic_class);
  put_control(header, level, ipv4 ? IP_TTL : IPV6_HOPLIMIT, out.hop_limit);
  Message& made = messages_->made[described_];
  made = {};
  made.segment = out.length;
  made.traffic_class = out.traffic_class;
  made.hop_limit = out.hop_limit;
  ++described_;
}

/// The kernel counts the identifications of IPv4 up from 0.
void UdpSender::join_message(const rte_mbuf* frame, const Outgoing& out) {
  const Message& last = messages_->made[described_ - 1];
  if (out.flow != 0) joined_flow(out) = {out.flow, out.psn};
  ++joined_;
  if (last.frames == 1) {
    put_control(messages_->headers[described_ - 1].msg_hdr, IPPROTO_UDP, UDP_SEGMENT,
                static_cast<std::uint16_t>(last.segment));
  }
  if (!out.socket->is_ipv4()) {
    add_pieces(frame, out.offset, out.length);
    return;
  }
  auto& trailer = messages_->icrcs[frames_];
  constexpr std::uint32_t kSize = sizeof trailer;
  std::uint32_t icrc = 0;
  const std::uint32_t at = out.offset + out.length - kSize;
  std::memcpy(&icrc, rte_pktmbuf_read(frame, at, kSize, &trailer), kSize);
  const std::size_t length = sizeof(rte_ipv4_hdr) + kUdpHeader + out.length;
  trailer = icrc ^ rte_cpu_to_le_32(identification_.change(length, last.frames));
  add_pieces(frame, out.offset, out.length - kSize);
  messages_->pieces[pieces_++] = {&trailer, kSize};
}

/// The pieces cover the `length` bytes behind the first `skip`.
void UdpSender::add_pieces(const rte_mbuf* frame, std::uint32_t skip, std::uint32_t length) {
  for (const rte_mbuf* part = frame; length > 0; part = part->next) {
    const std::uint32_t skipped = std::min<std::uint32_t>(skip, part->data_len);
    const std::uint32_t taken = std::min<std::uint32_t>(part->data_len - skipped, length);
    skip -= skipped;
    length -= taken;
    if (taken == 0) continue;
    messages_->pieces[pieces_++] = {rte_pktmbuf_mtod_offset(part, void*, skipped), taken};
  }
}

std::uint16_t UdpSender::tx_burst(rte_mbuf** packets, std::uint16_t count) {
  std::uint16_t done = 0;
  while (done < count) {
    // As many in a row as one socket sends.
    Socket* sender = nullptr;
    described_ = 0;
    frames_ = 0;
    pieces_ = 0;
    while (done + frames_ < count && frames_ < kUdpBurst) {
      const rte_mbuf* frame = packets[done + frames_];
      const Outgoing out = look_at(frame);
      if (frames_ > 0 && (out.socket != sender || pieces_ + frame->nb_segs + 1 > kPieces)) break;
      if (out.socket == nullptr) {
        out.drop->add();
        ++done;
        continue;
      }
      sender = out.socket;
      describe(frame, out);
    }
    if (frames_ == 0) break;
    const Progress progress = send_described(*sender, packets + done);
    done = static_cast<std::uint16_t>(done + progress.frames);
    if (progress.waits) {
      counters_.tx_waits.add();
      break;
    }
  }
  rte_pktmbuf_free_bulk(packets, done);
  return done;
}

UdpSender::Progress UdpSender::send_described(Socket& socket, rte_mbuf* const* frames) {
  std::uint16_t done = 0;
  for (std::uint16_t message = 0; message < described_;) {
    const std::uint16_t first_frames = messages_->made[message].frames;
    const int sent = send_alike(socket, message);
    if (sent < 0 && may_succeed_later(errno)) return {done, true};
    if (sent < 0 && first_frames > 1 && refuses_to_cut(errno)) {
      counters_.tx_not_segmented.add();
      keep_apart();
      return {done, false};
    }
    if (sent < 0) {
      // It is about the first one alone.
      counters_.tx_refused.add(first_frames);
      done = static_cast<std::uint16_t>(done + first_frames);
      ++message;
      continue;
    }
    for (const int end = message + sent; message < end; ++message) {
      const std::uint16_t count = messages_->made[message].frames;
      counters_.tx_packets.add(count);
      if (count > 1) counters_.tx_segmented.add(count);
      for (std::uint16_t i = 0; i < count; ++i) {
        counters_.tx_bytes.add(frames[done++]->pkt_len);
      }
    }
  }
  return {done, false};
}

int UdpSender::send_alike(Socket& socket, std::uint16_t message) {
  const auto is_cut = [this](std::uint16_t number) { return messages_->made[number].frames > 1; };
  const bool cut = is_cut(message);
  auto end = static_cast<std::uint16_t>(message + 1);
  while (end < described_ && is_cut(end) == cut) {
    ++end;
  }
  if (std::exchange(socket.has_checksums, cut) != cut) {
    use_checksums(socket.descriptor, socket.is_ipv4(), cut);
  }
  const Uncancelled uncancelled;
  return ::sendmmsg(socket.descriptor.fd(), &messages_->headers[message],
                    static_cast<unsigned>(end - message), MSG_DONTWAIT);
}

}  // namespace rockhopper::stack
