// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What a forged connect costs the target that refuses it, and what is left to an established
// session when there is one for each packet of data. The target's time only, on one core, without a
// link.
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <rte_cycles.h>

#include "apps/node/node.h"
#include "bench/support.h"
#include "dc/endpoint.h"
#include "dc/message_packet.h"
#include "roce/address_vector.h"
#include "roce/engine.h"
#include "roce/random.h"
#include "stack/host.h"
#include "stack/mbuf_pool.h"

namespace rockhopper::bench {
namespace {

constexpr std::uint16_t kSiegeBurst = 32;
constexpr std::uint16_t kSiegeMtu = 4300;
constexpr std::uint16_t kSiegeDataRoom = RTE_PKTMBUF_HEADROOM + kSiegeMtu + 64;
constexpr std::uint64_t kTurnNs = 10'000;
constexpr std::uint32_t kLength = 4096;  ///< of a WRITE: one packet
constexpr std::uint32_t kSiegeOutstanding = 64;
constexpr std::uint8_t kSources = 16;  ///< of forged packets
constexpr std::size_t kForged = 4096;  ///< different ones

enum class Kind : std::uint8_t { wrong_key, no_target, right_key };

rte_ether_addr mac_of(std::uint8_t station) { return {{2, 0, 0, 0, 0, station}}; }
stack::IpAddress address_of(std::uint8_t station) {
  return stack::IpAddress::from_ipv4(0xc0000200u + station);
}
constexpr std::uint8_t kTarget = 1;
constexpr std::uint8_t kInitiator = 2;
constexpr std::uint8_t kAttacker = 64;  ///< the first of its addresses

/// A station; it has an engine and DC.
struct Station {
  explicit Station(std::uint8_t number)
      : pool(must(stack::MbufPool::create({.size = 8191, .data_room = kSiegeDataRoom}))),
        random(number),
        memory(std::size_t{1} << 20),
        cq(must(roce::CompletionQueue::create(2 * kSiegeOutstanding))) {
    const std::uint8_t other = number == kTarget ? kInitiator : kTarget;
    node = must(Node::open({.port = NoPort{.mac = mac_of(number), .mtu = kSiegeMtu},
                            .addresses = {{address_of(number), 24}},
                            .neighbours = {{address_of(other), mac_of(other)}},
                            .engine = {.random = &random},
                            .dc = dc::EndpointConfig{.sessions = {.contexts = 64}},
                            .packet_pool = pool.get()}));
    pd = engine().allocate_pd();
    region = must(engine().register_memory(pd, memory.data(), memory.size(), roce::kAccessAll));
  }
  [[nodiscard]] stack::Host& host() const { return node->host(); }
  [[nodiscard]] roce::Engine& engine() const { return node->engine(); }

  stack::MbufPool pool;
  roce::SeededRandom random;
  std::vector<std::byte> memory;
  std::unique_ptr<roce::CompletionQueue> cq;
  std::unique_ptr<Node> node;
  roce::ProtectionDomain pd;
  roce::MemoryRegion region;
};

/// A session that is kept busy, and a source of forged connects to the same target.
class Siege {
 public:
  explicit Siege(Kind kind) : target_(kTarget), initiator_(kInitiator) {
    dc::DctInit dct;
    dct.pd = target_.pd;
    dct.srq = must(target_.engine().create_srq({.pd = target_.pd, .attributes = {.max_wr = 16}}));
    dct.recv_cq = target_.cq.get();
    dct.access_flags = roce::kAccessAll;
    dct.path_mtu = roce::PathMtu::mtu_4096;
    dct_ = must(target_.node->dc().create_dct(dct));
    dc::DciInit dci;
    dci.pd = initiator_.pd;
    dci.send_cq = initiator_.cq.get();
    dci.max_send_wr = kSiegeOutstanding;
    dci.sq_sig_all = true;
    dci.path_mtu = roce::PathMtu::mtu_4096;
    dci_ = must(initiator_.node->dc().create_dci(dci));
    ah_ = must(initiator_.engine().create_ah(
        initiator_.pd, {.source = address_of(kInitiator), .destination = address_of(kTarget)}));
    forge(kind);
  }

  /// Begins to keep the session busy.
  void start() {
    for (std::uint32_t i = 0; i < kSiegeOutstanding; ++i) {
      post();
    }
  }

  /// A burst each way, with `forged` packets in front of what comes to the target. The requests
  /// that have completed.
  std::uint64_t turn(std::uint16_t forged) {
    now_ns_ += kTurnNs;
    std::array<rte_mbuf*, std::size_t{2} * kSiegeBurst> packets;
    for (std::uint16_t i = 0; i < forged; ++i) {
      packets[i] = next_forged();
    }
    const auto count = static_cast<std::uint16_t>(
        forged + initiator_.host().transmit(&packets[forged], kSiegeBurst, now_ns_));
    const std::uint64_t start = rte_rdtsc();
    target_.host().receive(packets.data(), count, now_ns_);
    const std::uint16_t answers = target_.host().transmit(packets.data(), kSiegeBurst, now_ns_);
    cycles_ += rte_rdtsc() - start;
    deliver(packets.data(), answers);
    std::array<roce::Completion, kSiegeOutstanding> completions;
    const std::size_t done = initiator_.cq->poll(completions);
    for (std::size_t i = 0; i < done; ++i) {
      failed_ = failed_ || completions[i].status != roce::WcStatus::success;
      post();
    }
    return done;
  }

  [[nodiscard]] double take_seconds() {
    return static_cast<double>(std::exchange(cycles_, 0)) / static_cast<double>(rte_get_tsc_hz());
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  using Frame = std::vector<std::byte>;

  void forge(Kind kind) {
    stack::MbufPool pool = must(stack::MbufPool::create({.size = 63, .cache = 0}));
    auto host = must(stack::Host::create(
        {.mac = mac_of(kAttacker), .mtu = kSiegeMtu, .vlan_id = {}, .packet_pool = pool.get()}));
    must(host->add_static_neighbour(address_of(kTarget), mac_of(kTarget)));
    for (std::uint8_t i = 0; i < kSources; ++i) {
      must(host->add_address(address_of(static_cast<std::uint8_t>(kAttacker + i)), 24));
    }
    roce::SeededRandom random(7);
    for (std::size_t i = 0; i < kForged; ++i) {
      const auto source = static_cast<std::uint8_t>(kAttacker + random.below(kSources));
      stack::Flow flow;
      flow.config = roce::flow_config(
          {.source = address_of(source), .destination = address_of(kTarget)}, random.next());
      if (host->resolve(flow, 0) != stack::Resolution::ready) throw std::runtime_error("no way");
      const dc::Connect connect{
          .data_follows = true,
          .mtu_code = 3,
          .initiator = wire::Qpn{static_cast<std::uint32_t>(random.below(1 << 24))},
          .nonce = static_cast<std::uint32_t>(random.next()),
          .lease_us = 1'000'000,
          .access_key = kind == Kind::right_key ? dct_->access_key() : random.next(),
          .incarnation = random.next(),
          .responder_resources = 1};
      wire::Qpn to = dct_->number();
      if (kind == Kind::no_target) to.value ^= 0x0f0000;
      rte_mbuf* packet =
          dc::build_message(connect, to, [&](wire::Headers& headers, std::uint32_t length) {
            return roce::PacketBuilder(pool.get(), *host, flow, headers, length);
          });
      const auto* data = rte_pktmbuf_mtod(packet, const std::byte*);
      forged_.emplace_back(data, data + packet->data_len);
      rte_pktmbuf_free(packet);
    }
  }

  [[nodiscard]] rte_mbuf* next_forged() {
    const Frame& frame = forged_[next_++ % forged_.size()];
    rte_mbuf* packet = rte_pktmbuf_alloc(target_.pool.get());
    std::memcpy(rte_pktmbuf_append(packet, static_cast<std::uint16_t>(frame.size())), frame.data(),
                frame.size());
    return packet;
  }

  /// To the initiator what is for it; what is for the forged sources nobody takes.
  void deliver(rte_mbuf** packets, std::uint16_t count) {
    std::uint16_t own = 0;
    for (std::uint16_t i = 0; i < count; ++i) {
      const auto* ether = rte_pktmbuf_mtod(packets[i], const rte_ether_hdr*);
      if (rte_is_same_ether_addr(&ether->dst_addr, &kInitiatorMac) != 0) {
        packets[own++] = packets[i];
      } else {
        rte_pktmbuf_free(packets[i]);
      }
    }
    if (own > 0) initiator_.host().receive(packets, own, now_ns_);
  }

  void post() {
    const roce::Sge sge{
        .addr = initiator_.region.iova, .length = kLength, .lkey = initiator_.region.key};
    roce::SendWr wr;
    wr.sg_list = {&sge, 1};
    wr.opcode = roce::WrOpcode::rdma_write;
    wr.ah = ah_;
    wr.remote_qpn = dct_->number();
    wr.dc_access_key = dct_->access_key();
    wr.remote_addr = target_.region.iova;
    wr.rkey = target_.region.key;
    failed_ = failed_ || dci_->post_send(wr) != roce::PostResult::ok;
  }

  static constexpr rte_ether_addr kInitiatorMac{{2, 0, 0, 0, 0, kInitiator}};

  Station target_;
  Station initiator_;
  dc::Dct* dct_ = nullptr;
  dc::Dci* dci_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
  std::vector<Frame> forged_;
  std::size_t next_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t cycles_ = 0;
  bool failed_ = false;
};

template <Kind kKind>
void refusal(benchmark::State& state) {
  Siege siege(kKind);
  for (auto _ : state) {
    (void)siege.turn(kSiegeBurst);
    state.SetIterationTime(siege.take_seconds());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kSiegeBurst);
}

/// Argument: forged packets for each burst of data.
template <Kind kKind>
void session(benchmark::State& state) {
  Siege siege(kKind);
  siege.start();
  std::uint64_t requests = 0;
  for (auto _ : state) {
    requests += siege.turn(static_cast<std::uint16_t>(state.range(0)));
    state.SetIterationTime(siege.take_seconds());
  }
  if (siege.failed()) state.SkipWithError("a request failed");
  state.SetItemsProcessed(static_cast<std::int64_t>(requests));
}

#define ROCKHOPPER_BENCHMARK(kind)                                            \
  BENCHMARK(refusal<Kind::kind>)->Name("dc_refusal/" #kind)->UseManualTime(); \
  BENCHMARK(session<Kind::kind>)                                              \
      ->Name("dc_session/" #kind)                                             \
      ->ArgName("forged")                                                     \
      ->Arg(0)                                                                \
      ->Arg(kSiegeBurst)                                                      \
      ->UseManualTime()

ROCKHOPPER_BENCHMARK(wrong_key);
ROCKHOPPER_BENCHMARK(no_target);
ROCKHOPPER_BENCHMARK(right_key);

#undef ROCKHOPPER_BENCHMARK

}  // namespace
}  // namespace rockhopper::bench
