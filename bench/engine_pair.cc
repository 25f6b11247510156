// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "bench/engine_pair.h"

#include <rte_cycles.h>
#include <rte_mbuf.h>

namespace rockhopper::bench {
namespace {

constexpr std::uint16_t kBurst = 32;
constexpr std::uint16_t kLinkMtu = 4200;
constexpr std::uint16_t kDataRoom = RTE_PKTMBUF_HEADROOM + kLinkMtu + 64;
constexpr std::uint32_t kHeldPackets = 2048;  ///< behind locks that are waited for

EnginePair::Side peer_of(EnginePair::Side side) {
  return side == EnginePair::requester ? EnginePair::responder : EnginePair::requester;
}

rte_ether_addr mac_of(std::size_t side) {
  return {{2, 0, 0, 0, 0, static_cast<std::uint8_t>(1 + side)}};
}

}  // namespace

stack::IpAddress EnginePair::address(Side side) {
  return stack::IpAddress::from_ipv4(0xc0000201u + static_cast<std::uint32_t>(side));
}

EnginePair::EnginePair(const EnginePairConfig& config)
    : ends_{make_end(config, requester), make_end(config, responder)}, turn_ns_(config.turn_ns) {
  connect_side(config, requester);
  connect_side(config, responder);
  for (int i = 0; i < 4; ++i) {
    exchange();  // what hosts announce of themselves
  }
  (void)take_cycles(requester);
  (void)take_cycles(responder);
}

EnginePair::End EnginePair::make_end(const EnginePairConfig& config, Side side) {
  End end;
  end.pool = must(stack::MbufPool::create({.size = 4095, .data_room = kDataRoom}));
  end.random = std::make_unique<roce::SeededRandom>(1 + side);
  end.memory.resize(config.memory);
  end.cq = must(roce::CompletionQueue::create(2 * config.qps * config.outstanding));
  end.node =
      must(Node::open({.port = NoPort{.mac = mac_of(side), .mtu = kLinkMtu},
                       .addresses = {{address(side), 24}},
                       .neighbours = {{address(peer_of(side)), mac_of(peer_of(side))}},
                       .engine = {.random = end.random.get(), .max_held_packets = kHeldPackets},
                       .packet_pool = end.pool.get()}));
  roce::Engine& engine = end.node->engine();
  end.pd = engine.allocate_pd();
  end.region =
      must(engine.register_memory(end.pd, end.memory.data(), end.memory.size(), roce::kAccessAll));
  if (config.locks && side == responder) {
    end.locks = std::make_unique<roce::lock::Region>(end.memory.data(), end.memory.size(),
                                                     roce::lock::Region::Config{});
    engine.attach_locks(*end.locks);
  }
  for (std::uint32_t i = 0; i < config.qps; ++i) {
    end.qps.push_back(must(engine.create_qp({.pd = end.pd,
                                             .send_cq = end.cq.get(),
                                             .recv_cq = end.cq.get(),
                                             .max_send_wr = config.outstanding,
                                             .max_recv_wr = config.outstanding,
                                             .max_send_sge = 1,
                                             .max_recv_sge = 1,
                                             .lock_execution = config.locks})));
  }
  return end;
}

void EnginePair::connect_side(const EnginePairConfig& config, Side side) {
  const auto rd_atomic = config.max_rd_atomic > 0 ? config.max_rd_atomic
                                                  : static_cast<std::uint8_t>(config.outstanding);
  for (std::uint32_t i = 0; i < config.qps; ++i) {
    connect(*ends_[side].qps[i], {.path_mtu = config.path_mtu, .max_rd_atomic = rd_atomic},
            address(side), address(peer_of(side)), ends_[peer_of(side)].qps[i]->number());
  }
}

void EnginePair::move(End& from, End& to) {
  std::array<rte_mbuf*, kBurst> packets;
  const std::uint64_t start = rte_rdtsc();
  const std::uint16_t count = from.node->host().transmit(packets.data(), kBurst, now_ns_);
  const std::uint64_t sent = rte_rdtsc();
  if (count > 0) to.node->host().receive(packets.data(), count, now_ns_);
  from.cycles += sent - start;
  to.cycles += rte_rdtsc() - sent;
}

void EnginePair::exchange() {
  now_ns_ += turn_ns_;
  move(ends_[requester], ends_[responder]);
  move(ends_[responder], ends_[requester]);
}

std::uint64_t EnginePair::take_cycles(Side side) { return std::exchange(ends_[side].cycles, 0); }

}  // namespace rockhopper::bench
