// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A whole IP host: frames received in chains, neighbours resolved, time passing. Input: records of
// one byte, what to do, and its operands; a frame is one byte of repairs to make (so that mutations
// get past checksums and addresses), one byte of segment size, two of length, and the bytes.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>

#include "stack/host.h"
#include "stack/mbuf_pool.h"
#include "tests/fuzz/eal.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/exact_packet.h"

namespace rockhopper::fuzz {
namespace {

using stack::Flow;
using stack::Host;
using stack::IpAddress;
using test::Bytes;

enum Action : std::uint8_t { kReceive, kPassTime, kResolve, kProbe, kActions };

enum Repair : std::uint8_t {
  kStation = 1,  ///< send it to our MAC
  kAddress = 2,  ///< send it to our IP address
  kIpv4Checksum = 4,
  kIcmpv6Checksum = 8,
};

constexpr std::array<std::uint8_t, 6> kMac{2, 0, 0, 0, 0, 1};
constexpr std::size_t kL3 = 14;
constexpr std::size_t kIpv6Payload = kL3 + 40;
constexpr std::uint8_t kIcmpv6 = 58;
constexpr std::uint32_t kNeighbourLimit = 4;
constexpr std::uint8_t kNewAddress = 9;
constexpr int kCallsMax = 1000;  // far more than the packets that may wait

const IpAddress kIpv4Address = IpAddress::from_ipv4(0xc0000201);
const IpAddress kIpv6Address = IpAddress::parse("2001:db8::1").value();

/// One pool for the life of the process.
rte_mempool* pool() {
  static const stack::MbufPool* const instance = [] {
    ensure_eal();
    auto created = stack::MbufPool::create({.size = 1023, .cache = 0});
    check(created.has_value());
    return new stack::MbufPool(std::move(*created));
  }();
  return instance->get();
}

std::uint16_t ones_complement_sum(std::span<const std::uint8_t> bytes, std::uint32_t sum) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  }
  while (sum > 0xffff) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(sum);
}

void store_be16(std::uint8_t* at, std::uint16_t value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}

void repair_ipv6(Bytes& frame, std::uint8_t repairs) {
  if ((repairs & kAddress) != 0) {
    std::copy(kIpv6Address.bytes.begin(), kIpv6Address.bytes.end(), &frame[kL3 + 24]);
  }
  const std::size_t length = static_cast<std::size_t>(frame[kL3 + 4]) << 8 | frame[kL3 + 5];
  if ((repairs & kIcmpv6Checksum) == 0 || frame[kL3 + 6] != kIcmpv6 || length < 4 ||
      length > frame.size() - kIpv6Payload) {
    return;
  }
  store_be16(&frame[kIpv6Payload + 2], 0);
  const auto addresses = std::span(frame).subspan(kL3 + 8, 32);
  const std::uint32_t sum =
      ones_complement_sum(addresses, static_cast<std::uint32_t>(length)) + std::uint32_t{kIcmpv6};
  const auto message = std::span(frame).subspan(kIpv6Payload, length);
  store_be16(&frame[kIpv6Payload + 2],
             static_cast<std::uint16_t>(~ones_complement_sum(message, sum)));
}

void repair(Bytes& frame, std::uint8_t repairs) {
  if (frame.size() < kL3) return;
  if ((repairs & kStation) != 0) std::copy(kMac.begin(), kMac.end(), frame.begin());
  if (frame[12] == 0x08 && frame[13] == 0x00 && frame.size() >= kL3 + 20) {
    if ((repairs & kAddress) != 0) {
      std::copy_n(kIpv4Address.bytes.begin() + 12, 4, &frame[kL3 + 16]);
    }
    if ((repairs & kIpv4Checksum) == 0) return;
    store_be16(&frame[kL3 + 10], 0);
    const std::uint16_t sum = ones_complement_sum(std::span(frame).subspan(kL3, 20), 0);
    store_be16(&frame[kL3 + 10], static_cast<std::uint16_t>(~sum));
  } else if (frame[12] == 0x86 && frame[13] == 0xdd && frame.size() >= kIpv6Payload) {
    repair_ipv6(frame, repairs);
  }
}

/// Takes the datagrams and checks what was promised of them.
class Handler final : public stack::UdpClient {
 public:
  void on_udp(const stack::UdpDatagram& datagram, std::uint64_t) override {
    check(datagram.payload_offset + datagram.payload_length <=
          rte_pktmbuf_pkt_len(datagram.packet));
    check(datagram.l3_offset == 14 || datagram.l3_offset == 18);
    check(datagram.source.is_ipv4() == datagram.destination.is_ipv4());
    ++delivered;
    rte_pktmbuf_free(datagram.packet);
  }
  std::uint64_t delivered = 0;
};

class Drops final : public stack::DropObserver {
 public:
  void on_drop(const rte_mbuf* packet, const char* reason) override {
    check(packet != nullptr && reason != nullptr);
    ++dropped;
  }
  std::uint64_t dropped = 0;
};

class Session {
 public:
  Session() {
    stack::HostConfig config;
    std::copy(kMac.begin(), kMac.end(), config.mac.addr_bytes);
    config.packet_pool = pool();
    config.neighbour_limit = kNeighbourLimit;
    config.drop_observer = &drops_;
    host_ = std::move(*Host::create(config));
    check(host_->add_address(kIpv4Address, 24).has_value());
    check(host_->add_address(kIpv6Address, 64).has_value());
    check(host_->set_gateway(IpAddress::from_ipv4(0xc00002fe)).has_value());
    host_->bind_udp(4791, &handler_);
  }

  void play(std::span<const std::uint8_t> input) {
    while (!input.empty()) {
      const std::uint8_t action = input[0] % kActions;
      input = input.subspan(1);
      if (action == kReceive) {
        input = receive(input);
      } else if (!input.empty()) {
        if (action == kPassTime) pass_time(input[0]);
        if (action == kResolve) resolve(input[0]);
        if (action == kProbe) probe(input[0]);
        input = input.subspan(1);
      }
    }
    pass_time(0);
  }

 private:
  /// Returns what follows the frame.
  std::span<const std::uint8_t> receive(std::span<const std::uint8_t> input) {
    if (input.size() < 4) return {};
    const std::uint8_t repairs = input[0];
    const std::size_t segment = std::max<std::size_t>(input[1], 1);
    const std::size_t length =
        std::min(static_cast<std::size_t>(input[2]) << 8 | input[3], input.size() - 4);
    Bytes frame(input.begin() + 4, input.begin() + 4 + static_cast<std::ptrdiff_t>(length));
    repair(frame, repairs);
    std::vector<std::size_t> lengths;
    for (std::size_t left = length; left > 0; left -= lengths.back()) {
      lengths.push_back(lengths.size() < 30 ? std::min(segment, left) : left);
    }
    if (lengths.empty()) lengths.push_back(0);
    rte_mbuf* packet = test::make_exact_packet(pool(), frame, lengths);
    check(packet != nullptr);
    const std::uint64_t before = drops_.dropped + handler_.delivered;
    host_->receive(&packet, 1, now_ns_);
    check(drops_.dropped + handler_.delivered <= before + 1);
    return input.subspan(4 + length);
  }

  void pass_time(std::uint8_t amount) {
    now_ns_ += std::uint64_t{amount} << 28;
    std::array<rte_mbuf*, 4> packets;
    // An address whose probing ends is announced by the next call.
    for (int calls = 0; calls < kCallsMax && host_->next_deadline_ns() <= now_ns_; ++calls) {
      const std::uint16_t count = host_->transmit(packets.data(), packets.size(), now_ns_);
      for (std::uint16_t i = 0; i < count; ++i) {
        check(rte_pktmbuf_pkt_len(packets[i]) >= kL3 + 28);
        rte_pktmbuf_free(packets[i]);
      }
    }
    check(host_->next_deadline_ns() > now_ns_);
  }

  void resolve(std::uint8_t which) {
    Flow& flow = flows_[which % flows_.size()];
    const auto last = static_cast<std::uint8_t>(which / flows_.size());
    if ((which & 1) == 0) {
      flow.config.source = kIpv4Address;
      flow.config.destination = IpAddress::from_ipv4(0xc0000200u + last);
    } else {
      flow.config.source = kIpv6Address;
      flow.config.destination = kIpv6Address;
      flow.config.destination.bytes[15] = last;
    }
    flow.neighbour_generation = 0;
    if (host_->resolve(flow, now_ns_) != stack::Resolution::ready) return;
    check(host_->resolve(flow, now_ns_) == stack::Resolution::ready);
    rte_mbuf* packet = rte_pktmbuf_alloc(pool());
    check(packet != nullptr);
    host_->encapsulate(flow, packet, 4);
    check(rte_pktmbuf_pkt_len(packet) == flow.header_length);
    rte_pktmbuf_free(packet);
  }

  /// A new address is added with probing, or removed if it is there.
  void probe(std::uint8_t which) {
    IpAddress address = (which & 1) == 0 ? kIpv4Address : kIpv6Address;
    address.bytes[15] = static_cast<std::uint8_t>(kNewAddress + (which >> 1) % 2);
    const bool there = host_->address_state(address).has_value();
    const auto changed = there ? host_->remove_address(address)
                               : host_->add_address(address, 24, stack::AddressUse::after_probing);
    check(changed.has_value());
    check(!host_->owns(address));
  }

  Handler handler_;
  Drops drops_;
  std::unique_ptr<Host> host_;
  std::uint64_t now_ns_ = 1'000'000'000;
  std::array<Flow, 4> flows_;
};

void run(std::span<const std::uint8_t> input) {
  // It has given its buffers back when it is gone: here, at the end of the statement.
  Session().play(input);
  check(rte_mempool_in_use_count(pool()) == 0);
}

void append_frame(Bytes& input, const Bytes& frame) {
  constexpr std::uint8_t kAllRepairs = kStation | kAddress | kIpv4Checksum | kIcmpv6Checksum;
  constexpr std::uint8_t kSegment = 33;
  input.insert(input.end(),
               {kReceive, kAllRepairs, kSegment, static_cast<std::uint8_t>(frame.size() >> 8),
                static_cast<std::uint8_t>(frame.size())});
  input.insert(input.end(), frame.begin(), frame.end());
}

/// A question by ARP and one by neighbour discovery, an answer to each of ours, a claim to a new
/// address of ours of either kind, an echo request of either kind, a complaint of a packet that is
/// too big, then the captured packet.
Bytes make_input(const test::RocePacket& packet) {
  const Bytes from{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  const Bytes peer6{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  const auto ethernet = [&](std::uint16_t type, std::initializer_list<Bytes> parts) {
    Bytes frame = from;
    frame.push_back(static_cast<std::uint8_t>(type >> 8));
    frame.push_back(static_cast<std::uint8_t>(type));
    for (const Bytes& part : parts) {
      frame.insert(frame.end(), part.begin(), part.end());
    }
    return frame;
  };
  const auto arp = [&](std::uint8_t operation, std::uint8_t sender = 2) {
    return ethernet(RTE_ETHER_TYPE_ARP, {{0, 1, 8, 0, 6, 4, 0, operation},
                                         {2, 0, 0, 0, 0, 2, 192, 0, 2, sender},
                                         {2, 0, 0, 0, 0, 1, 192, 0, 2, 1}});
  };
  const auto neighbour = [&](std::uint8_t type, std::uint8_t target, std::uint8_t option) {
    Bytes target6 = peer6;
    target6.back() = target;
    return ethernet(RTE_ETHER_TYPE_IPV6, {{0x60, 0, 0, 0, 0, 32, kIcmpv6, 255},
                                          peer6,
                                          Bytes(16),
                                          {type, 0, 0, 0, 0x60, 0, 0, 0},
                                          target6,
                                          {option, 1, 2, 0, 0, 0, 0, 2}});
  };
  Bytes input{kResolve, 8, kResolve, 9};
  append_frame(input, arp(1));
  append_frame(input, arp(2));
  append_frame(input, neighbour(135, 1, 1));
  append_frame(input, neighbour(136, 2, 2));
  input.insert(input.end(), {kProbe, 0, kProbe, 1, kProbe, 2, kPassTime, 8});
  append_frame(input, arp(2, kNewAddress));
  append_frame(input, neighbour(136, kNewAddress, 2));
  append_frame(
      input,
      ethernet(RTE_ETHER_TYPE_IPV6,
               {{0x60, 0, 0, 0, 0, 8, kIcmpv6, 64}, peer6, Bytes(16), {128, 0, 0, 0, 0, 1, 0, 1}}));
  append_frame(
      input, ethernet(RTE_ETHER_TYPE_IPV4, {{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 2},
                                            Bytes(4),
                                            {8, 0, 0xf7, 0xfd, 0, 1, 0, 1}}));
  Bytes own6 = peer6;
  own6.back() = 1;
  append_frame(input, ethernet(RTE_ETHER_TYPE_IPV6, {{0x60, 0, 0, 0, 0, 56, kIcmpv6, 64},
                                                     peer6,
                                                     Bytes(16),
                                                     {2, 0, 0, 0, 0, 0, 5, 0},
                                                     {0x60, 0, 0, 0, 5, 0x78, 17, 64},
                                                     own6,
                                                     peer6,
                                                     {0xc1, 0x23, 0x12, 0xb7, 5, 0x78, 0, 0}}));
  const bool ipv4 = packet.bytes[0] >> 4 == 4;
  append_frame(input, ethernet(ipv4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6, {packet.bytes}));
  input.insert(input.end(), {kPassTime, 200, kResolve, 8, kPassTime, 30});
  return input;
}

const FuzzTarget kTarget("host", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
