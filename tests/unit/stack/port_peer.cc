// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// One end of a link between two processes, for the tests of stack::Port:
//   port-peer mirror DEVARGS MTU         sends each test frame back with its payload inverted,
//                                        until standard input ends
//   port-peer probe DEVARGS MTU SEED     after a line on standard input: sends frames of all sizes
//                                        up to the MTU, also as chains, and checks what comes back
//   port-peer survivor DEVARGS MTU       polls as hard as it can while anything comes, and sends it
//                                        back, with or without a link, until standard input ends
//   port-peer victim DEVARGS MTU         after a line on standard input: opens the port, keeps its
//                                        link full for ever, and prints "traffic" when frames of
//                                        its own have come back
// MTU may be MTU:DATA_ROOM, the latter as in stack::PortConfig.
//   port-peer eal ARGUMENT...            starts and ends an EAL with these arguments
// They print "ready" when the port is open; victim, when the EAL has started. Exit status 0 means
// that all was as it should be.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <unistd.h>

#include "stack/clock.h"
#include "stack/eal.h"
#include "stack/port.h"
#include "stack/random.h"

namespace {

using namespace rockhopper;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint16_t kTestEtherType = 0x88B5;  // IEEE 802: local experiments
constexpr std::uint8_t kFromProbe = 0x00;         // the first byte of the payload; inverted: 0xff
constexpr std::size_t kHeader = sizeof(rte_ether_hdr);
constexpr std::uint8_t kTestIpProtocol = 253;
constexpr std::size_t kIpv4Header = kHeader + sizeof(rte_ipv4_hdr);
constexpr std::size_t kSmallestFrame = 60;
constexpr std::size_t kWindow = 8;
constexpr std::uint32_t kLinkTimeoutMs = 20'000;
constexpr std::uint64_t kAnswerTimeoutNs = 20'000'000'000;
constexpr std::uint16_t kBurst = 32;

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "port-peer: {}\n", why);
  std::_Exit(1);
}

/// Where the payload of a test frame with this marker begins; 0 for any other frame. A test frame
/// is of the local experiments' Ethernet type, or IPv4 with a protocol for experiments (RFC 3692),
/// whose header checksum must be right.
std::size_t payload_of(const rte_mbuf* packet, std::uint8_t marker) {
  std::array<std::uint8_t, kIpv4Header + 1> copy;
  const auto* bytes =
      static_cast<const std::uint8_t*>(rte_pktmbuf_read(packet, 0, copy.size(), copy.data()));
  if (bytes == nullptr) return 0;
  std::uint16_t type = 0;
  std::memcpy(&type, bytes + 12, sizeof(type));
  if (type == rte_cpu_to_be_16(kTestEtherType)) return bytes[kHeader] == marker ? kHeader : 0;
  rte_ipv4_hdr ip;
  std::memcpy(&ip, bytes + kHeader, sizeof(ip));
  if (type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || ip.next_proto_id != kTestIpProtocol ||
      bytes[kIpv4Header] != marker) {
    return 0;
  }
  if (rte_raw_cksum(&ip, sizeof(ip)) != 0xffff) die("a wrong IPv4 header checksum");
  return kIpv4Header;
}

Bytes bytes_of(const rte_mbuf* packet) {
  Bytes bytes;
  for (; packet != nullptr; packet = packet->next) {
    const auto* data = rte_pktmbuf_mtod(packet, const std::uint8_t*);
    bytes.insert(bytes.end(), data, data + packet->data_len);
  }
  return bytes;
}

void send(stack::Link& link, rte_mbuf* packet, const stack::Clock& clock) {
  const std::uint64_t deadline = clock.now_ns() + kAnswerTimeoutNs;
  while (link.tx_burst(&packet, 1, clock.now_ns()) == 0) {
    if (clock.now_ns() > deadline) die("the link takes no packet");
  }
}

/// Leaves the processor to others while nothing comes: on a busy machine the peer, who polls too,
/// would else wait for the end of a time slice with each frame.
class Idle {
 public:
  void after(std::uint16_t received) {
    if (received > 0) {
      polls_ = 0;
    } else if (++polls_ > kPatience) {
      const timespec nap{.tv_sec = 0, .tv_nsec = 100'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  static constexpr unsigned kPatience = 1000;
  unsigned polls_ = 0;
};

bool input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char byte = 0;
  return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

void wait_for_input() {
  char byte = 0;
  if (read(STDIN_FILENO, &byte, 1) != 1) die("told to stop before the start");
}

void mirror(stack::Link& link, const stack::Clock& clock) {
  std::array<rte_mbuf*, kBurst> packets;
  Idle idle;
  while (!input_ended()) {
    const std::uint16_t count = link.rx_burst(packets.data(), kBurst, clock.now_ns());
    idle.after(count);
    for (std::uint16_t i = 0; i < count; ++i) {
      std::size_t skip = payload_of(packets[i], kFromProbe);
      if (skip == 0) {
        rte_pktmbuf_free(packets[i]);
        continue;
      }
      for (rte_mbuf* part = packets[i]; part != nullptr; part = part->next) {
        auto* data = rte_pktmbuf_mtod(part, std::uint8_t*);
        for (std::size_t at = skip; at < part->data_len; ++at) {
          data[at] ^= 0xff;
        }
        skip -= std::min<std::size_t>(skip, part->data_len);
      }
      send(link, packets[i], clock);
    }
  }
}

Bytes make_frame(const rte_ether_addr& source, std::size_t size, stack::Random& random) {
  Bytes frame(size);
  for (auto& byte : frame) {
    byte = static_cast<std::uint8_t>(random.next());
  }
  std::memset(frame.data(), 0xff, RTE_ETHER_ADDR_LEN);
  std::memcpy(frame.data() + RTE_ETHER_ADDR_LEN, source.addr_bytes, RTE_ETHER_ADDR_LEN);
  frame[12] = kTestEtherType >> 8;
  frame[13] = kTestEtherType & 0xff;
  frame[kHeader] = kFromProbe;
  return frame;
}

/// Turns a frame into one of IPv4, with its checksum.
void make_ipv4(Bytes& frame) {
  rte_ipv4_hdr ip{};
  ip.version_ihl = RTE_IPV4_VHL_DEF;
  ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(frame.size() - kHeader));
  ip.time_to_live = 1;
  ip.next_proto_id = kTestIpProtocol;
  ip.src_addr = rte_cpu_to_be_32(RTE_IPV4(192, 0, 2, 1));
  ip.dst_addr = rte_cpu_to_be_32(RTE_IPV4(192, 0, 2, frame.size() % 256));
  ip.hdr_checksum = rte_ipv4_cksum(&ip);
  frame[12] = RTE_ETHER_TYPE_IPV4 >> 8;
  frame[13] = RTE_ETHER_TYPE_IPV4 & 0xff;
  std::memcpy(frame.data() + kHeader, &ip, sizeof(ip));
  frame[kIpv4Header] = kFromProbe;
}

/// Leaves the checksum of a frame from make_ipv4() to the device.
void request_checksum(rte_mbuf* packet) {
  packet->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
  packet->l2_len = kHeader;
  packet->l3_len = sizeof(rte_ipv4_hdr);
  rte_pktmbuf_mtod_offset(packet, rte_ipv4_hdr*, kHeader)->hdr_checksum = 0;
}

rte_mbuf* make_packet(rte_mempool* pool, const Bytes& frame, std::size_t segment) {
  rte_mbuf* head = nullptr;
  for (std::size_t done = 0; done < frame.size();) {
    rte_mbuf* part = rte_pktmbuf_alloc(pool);
    if (part == nullptr) die("no mbuf");
    const auto size = static_cast<std::uint16_t>(std::min(
        {segment, frame.size() - done, static_cast<std::size_t>(rte_pktmbuf_tailroom(part))}));
    std::memcpy(rte_pktmbuf_append(part, size), frame.data() + done, size);
    done += size;
    if (head == nullptr) {
      head = part;
    } else if (rte_pktmbuf_chain(head, part) != 0) {
      die("chain too long");
    }
  }
  return head;
}

std::vector<std::size_t> sizes_up_to(std::size_t largest, stack::Random& random) {
  std::vector<std::size_t> sizes;
  for (const std::size_t size : {60, 64, 65, 127, 1514, 2047, 2048, 2049, 4095, 4096, 4170, 8192}) {
    if (size <= largest) sizes.push_back(size);
  }
  sizes.push_back(largest - 1);
  sizes.push_back(largest);
  for (unsigned i = 0; i < 2000; ++i) {
    sizes.push_back(kSmallestFrame + random.below(largest - kSmallestFrame + 1));
  }
  return sizes;
}

/// Receives until an answer comes, and checks it.
void expect_answer(stack::Link& link, const stack::Clock& clock, std::deque<Bytes>& expected) {
  const std::uint64_t deadline = clock.now_ns() + kAnswerTimeoutNs;
  std::array<rte_mbuf*, kBurst> packets;
  Idle idle;
  for (bool answered = false; !answered;) {
    if (clock.now_ns() > deadline) {
      die(fmt::format("no answer to a frame of {} bytes", expected.front().size()));
    }
    const std::uint16_t count = link.rx_burst(packets.data(), kBurst, clock.now_ns());
    idle.after(count);
    for (std::uint16_t i = 0; i < count; ++i) {
      if (payload_of(packets[i], static_cast<std::uint8_t>(~kFromProbe)) != 0) {
        if (expected.empty()) die("more answers than frames");
        const Bytes got = bytes_of(packets[i]);
        if (got != expected.front()) {
          die(fmt::format("a frame of {} bytes came back as {} bytes, or changed",
                          expected.front().size(), got.size()));
        }
        expected.pop_front();
        answered = true;
      }
      rte_pktmbuf_free(packets[i]);
    }
  }
}

void probe(stack::Port& port, const stack::Clock& clock, std::uint64_t seed) {
  wait_for_input();
  if (!port.wait_for_link(kLinkTimeoutMs)) die("the link does not come up");
  stack::Random random(seed);
  std::deque<Bytes> expected;
  std::size_t number = 0;
  stack::PortQueue& link = port.queue(0);
  for (const std::size_t size : sizes_up_to(port.mtu() + kHeader, random)) {
    Bytes frame = make_frame(port.mac(), size, random);
    const std::size_t segment = number % 3 == 2 ? 700 : SIZE_MAX;
    const bool ipv4 = number % 4 == 3;
    ++number;
    if (ipv4) make_ipv4(frame);
    rte_mbuf* packet = make_packet(port.pool(), frame, segment);
    if (ipv4 && port.ipv4_checksum_offload()) request_checksum(packet);
    send(link, packet, clock);
    std::for_each(frame.begin() + (ipv4 ? kIpv4Header : kHeader), frame.end(),
                  [](std::uint8_t& b) { b ^= 0xff; });
    expected.push_back(std::move(frame));
    if (expected.size() >= kWindow) expect_answer(link, clock, expected);
  }
  while (!expected.empty()) {
    expect_answer(link, clock, expected);
  }
  const auto& counters = link.counters();
  if (counters.tx_packets.value() != number || counters.rx_packets.value() < number) {
    die("the counters do not agree");
  }
  fmt::print("frames={} driver={} linearised={} offload={}\n", number, port.driver(),
             counters.tx_linearised.value(), port.ipv4_checksum_offload());
}

std::unique_ptr<stack::Port> open_port(const stack::PortConfig& config) {
  auto port = stack::Port::open(config);
  if (!port) die(port.error().message);
  return std::move(*port);
}

void say(const char* line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void free_from(const std::array<rte_mbuf*, kBurst>& packets, std::uint16_t from,
               std::uint16_t count) {
  rte_pktmbuf_free_bulk(const_cast<rte_mbuf**>(packets.data()) + from,
                        static_cast<unsigned>(count - from));
}

void survive(stack::Port& port, const stack::Clock& clock) {
  stack::PortQueue& link = port.queue(0);
  stack::Random random(1);
  const Bytes frame = make_frame(port.mac(), port.mtu() + kHeader, random);
  std::array<rte_mbuf*, kBurst> packets;
  Idle idle;
  for (unsigned turn = 0; turn % 4096 != 0 || !input_ended(); ++turn) {
    std::uint16_t count = link.rx_burst(packets.data(), kBurst, clock.now_ns());
    idle.after(count);
    // Something to send also while nothing comes, so that it is sending when the peer goes.
    if (count == 0) packets[count++] = make_packet(port.pool(), frame, SIZE_MAX);
    free_from(packets, link.tx_burst(packets.data(), count, clock.now_ns()), count);
  }
}

[[noreturn]] void be_victim(stack::Port& port, const stack::Clock& clock) {
  constexpr unsigned kOwnFrames = 1000;
  stack::PortQueue& link = port.queue(0);
  stack::Random random(static_cast<std::uint64_t>(getpid()));
  const Bytes frame = make_frame(port.mac(), port.mtu() + kHeader, random);
  std::array<rte_mbuf*, kBurst> packets;
  for (unsigned returned = 0;;) {
    for (auto& packet : packets) {
      packet = make_packet(port.pool(), frame, SIZE_MAX);
    }
    free_from(packets, link.tx_burst(packets.data(), kBurst, clock.now_ns()), kBurst);
    const std::uint16_t count = link.rx_burst(packets.data(), kBurst, clock.now_ns());
    for (std::uint16_t i = 0; i < count && returned < kOwnFrames; ++i) {
      if (bytes_of(packets[i]) == frame && ++returned == kOwnFrames) say("traffic");
    }
    free_from(packets, 0, count);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "eal") {
    const auto eal = stack::Eal::start({.eal = {argv + 2, argv + argc}, .embedded = false});
    if (!eal) die(eal.error().message);
    return 0;
  }
  const bool pair = mode == "mirror" || mode == "survivor" || mode == "victim";
  if (!(pair && argc == 4) && !(mode == "probe" && argc == 5)) {
    fmt::print(stderr,
               "usage: port-peer mirror|survivor|victim DEVARGS MTU | probe DEVARGS MTU SEED | "
               "eal ...\n");
    return 2;
  }
  const auto eal = stack::Eal::start(stack::Arguments{});
  if (!eal) die(eal.error().message);
  char* rest = nullptr;
  const auto mtu = static_cast<std::uint16_t>(std::strtoul(argv[3], &rest, 10));
  const auto data_room = *rest == ':'
                             ? static_cast<std::uint16_t>(std::strtoul(rest + 1, nullptr, 10))
                             : std::uint16_t{0};
  const stack::PortConfig config{.devargs = argv[2], .mtu = mtu, .data_room = data_room};
  const stack::TscClock clock;
  if (mode == "victim") {
    say("ready");
    wait_for_input();
    be_victim(*open_port(config), clock);
  }
  const auto port = open_port(config);
  say("ready");
  if (mode == "mirror") {
    mirror(port->queue(0), clock);
  } else if (mode == "survivor") {
    survive(*port, clock);
  } else {
    probe(*port, clock, std::strtoull(argv[4], nullptr, 0));
  }
  return 0;
}
