// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What a packet costs in the IP host and what an acknowledgement costs in the timing wheel.
#include <array>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "stack/host.h"
#include "stack/mbuf_pool.h"
#include "stack/random.h"
#include "stack/roce_locator.h"
#include "stack/timing_wheel.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint16_t kReceiveBurst = 32;
constexpr rte_ether_addr kMac{{2, 0, 0, 0, 0, 1}};
constexpr rte_ether_addr kPeerMac{{2, 0, 0, 0, 0, 2}};

IpAddress address(bool ipv6, std::uint8_t last) {
  if (!ipv6) return IpAddress::from_ipv4(0xc0000200u + last);
  return {{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

std::unique_ptr<Host> make_host(rte_mempool* pool, const rte_ether_addr& mac, std::uint8_t last,
                                const rte_ether_addr& peer_mac, std::uint8_t peer) {
  HostConfig config;
  config.mac = mac;
  config.packet_pool = pool;
  auto host = std::move(*Host::create(config));
  for (const bool ipv6 : {false, true}) {
    (void)host->add_address(address(ipv6, last), 24);
    (void)host->add_static_neighbour(address(ipv6, peer), peer_mac);
  }
  return host;
}

Flow make_flow(Host& host, bool ipv6) {
  Flow flow;
  flow.config.source = address(ipv6, 1);
  flow.config.destination = address(ipv6, 2);
  flow.config.source_port = 0xc000;
  flow.config.destination_port = kRoceUdpPort;
  (void)host.resolve(flow, 0);
  return flow;
}

/// Keeps the packets for the next round.
class Sink final : public UdpClient {
 public:
  void on_udp(const UdpDatagram& datagram, std::uint64_t) override {
    std::uint16_t offset = datagram.payload_offset;
    benchmark::DoNotOptimize(offset);
  }
};

/// Argument: 1 for IPv6.
void resolve_and_encapsulate(benchmark::State& state) {
  auto pool = std::move(*MbufPool::create({.size = 1023}));
  auto host = make_host(pool.get(), kMac, 1, kPeerMac, 2);
  Flow flow = make_flow(*host, state.range(0) == 1);
  rte_mbuf* packet = rte_pktmbuf_alloc(pool.get());
  for (auto _ : state) {
    rte_pktmbuf_reset(packet);
    if (host->resolve(flow, 0) == Resolution::ready) host->encapsulate(flow, packet, 1028);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
  rte_pktmbuf_free(packet);
}
BENCHMARK(resolve_and_encapsulate)->Arg(0)->Arg(1);

/// One RoCEv2 sized packet from a burst through all checks to its handler. Argument: 1 for IPv6.
void receive(benchmark::State& state) {
  auto pool = std::move(*MbufPool::create({.size = 1023}));
  auto sender = make_host(pool.get(), kMac, 1, kPeerMac, 2);
  auto receiver = make_host(pool.get(), kPeerMac, 2, kMac, 1);
  Sink sink;
  receiver->bind_udp(kRoceUdpPort, &sink);
  const Flow flow = make_flow(*sender, state.range(0) == 1);
  std::array<rte_mbuf*, kReceiveBurst> burst{};
  for (rte_mbuf*& packet : burst) {
    packet = rte_pktmbuf_alloc(pool.get());
    sender->encapsulate(flow, packet, 1024);
    (void)rte_pktmbuf_append(packet, 1024);
  }
  for (auto _ : state) {
    receiver->receive(burst.data(), kReceiveBurst, 0);
  }
  state.SetItemsProcessed(state.iterations() * kReceiveBurst);
  for (rte_mbuf* packet : burst) {
    rte_pktmbuf_free(packet);
  }
}
BENCHMARK(receive)->Arg(0)->Arg(1);

/// An acknowledgement moves one of many timers by a round trip. Argument: number of timers.
void rearm_timer(benchmark::State& state) {
  TimingWheel wheel(4096);
  std::vector<std::unique_ptr<Timer>> timers;
  for (int i = 0; i < state.range(0); ++i) {
    timers.push_back(std::make_unique<Timer>([](void*, std::uint64_t) {}, nullptr));
  }
  std::uint64_t now_ns = 0;
  std::size_t next = 0;
  for (auto _ : state) {
    now_ns += 500;
    wheel.arm(*timers[next], now_ns + 67'000'000);
    next = next + 1 == timers.size() ? 0 : next + 1;
    wheel.advance(now_ns);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(rearm_timer)->Arg(1)->Arg(1000)->Arg(100'000);

/// Arms and cancels, as a request and its last acknowledgement do.
void arm_and_cancel_timer(benchmark::State& state) {
  TimingWheel wheel(4096);
  Timer timer([](void*, std::uint64_t) {}, nullptr);
  Random random(1);
  std::uint64_t now_ns = 0;
  for (auto _ : state) {
    now_ns += 500;
    wheel.arm(timer, now_ns + random.below(1'000'000'000));
    wheel.cancel(timer);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(arm_and_cancel_timer);

}  // namespace
}  // namespace rockhopper::stack
