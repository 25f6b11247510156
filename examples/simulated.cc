// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The program of write.cc in virtual time, on a link that loses every fourth packet: the same
// nodes, with a simulated link and its clock. Time stands still while there is something to do and
// then jumps to the next deadline, so that seconds of timeouts take milliseconds; and a seed gives
// one behaviour, packet for packet.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "roce/random.h"
#include "stack/mbuf_pool.h"
#include "stack/sim/network.h"
#include "support.h"

using example::must;
using namespace rockhopper;

namespace {

constexpr std::size_t kBytes = 65536;

/// What came of a transfer.
struct Outcome {
  bool complete = false;
  std::uint64_t took_ns = 0;
  std::uint64_t lost = 0;  ///< packets of both directions
  std::uint64_t sent = 0;  ///< packets of the writer
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// A node at one end of a simulated link. Its queue pair numbers come from the seed too.
struct End {
  End(stack::sim::Network& network, stack::sim::NodeIndex host, rte_mempool* pool,
      const char* address, std::uint64_t seed)
      : random(seed),
        node(must(Node::open({.port = LinkPort{{&network.nic(host)}},
                              .addresses = {must(InterfaceAddress::parse(address))},
                              .host = {.seed = seed},
                              .engine = {.random = &random},
                              .faults = stack::FaultConfig{.tx = {.loss = 0.25}, .seed = seed},
                              .clock = &network.clock(),
                              .packet_pool = pool}))) {
    roce::Engine& engine = node->engine();
    const roce::ProtectionDomain domain = engine.allocate_pd();
    region = must(engine.register_memory(domain, memory.data(), memory.size(), roce::kAccessAll));
    qp = must(engine.create_qp(
        {.pd = domain, .send_cq = completions.get(), .recv_cq = completions.get()}));
  }
  [[nodiscard]] std::uint64_t counter(const std::string& group, const std::string& name) const {
    std::uint64_t found = 0;
    node->visit_counters([&](const char* of, const char* which, std::uint64_t value) {
      if (of == group && which == name) found = value;
    });
    return found;
  }

  std::unique_ptr<roce::CompletionQueue> completions = must(roce::CompletionQueue::create(16));
  std::array<std::uint8_t, kBytes> memory{};
  roce::SeededRandom random;
  std::unique_ptr<Node> node;
  roce::MemoryRegion region;
  roce::QueuePair* qp = nullptr;
};

Outcome transfer(std::uint64_t seed) {
  // Packets of both nodes. They may be on the way at the end, so it outlives the network.
  const stack::MbufPool pool = must(stack::MbufPool::create({.size = 4095}));
  stack::sim::Network network;
  const auto first = network.add_host();
  const auto second = network.add_host();
  network.add_link(first, second,
                   {.rate_bits_per_s = 10'000'000'000, .delay_ns = 5'000, .mtu = 1500});
  must(network.build());
  const auto near = std::make_unique<End>(network, first, pool.get(), "10.0.0.1/24", 2 * seed);
  const auto far = std::make_unique<End>(network, second, pool.get(), "10.0.0.2/24", 2 * seed + 1);
  example::connect(*near->qp, *near->node, *far->node, *far->qp);
  example::connect(*far->qp, *far->node, *near->node, *near->qp);
  for (std::size_t i = 0; i < kBytes; ++i) {
    near->memory[i] = static_cast<std::uint8_t>(i % 251);
  }

  const roce::Sge source{near->region.iova, kBytes, near->region.key};
  const roce::PostResult posted = near->qp->post_send({.sg_list = {&source, 1},
                                                       .opcode = roce::WrOpcode::rdma_write,
                                                       .send_flags = roce::kSendSignaled,
                                                       .remote_addr = far->region.iova,
                                                       .rkey = far->region.key});
  if (posted != roce::PostResult::ok) return {};
  const std::uint64_t start_ns = network.now_ns();
  roce::Completion completion;
  while (near->completions->poll({&completion, 1}) == 0) {
    const bool near_moved = near->node->turn();
    const bool far_moved = far->node->turn();
    if (near_moved || far_moved) continue;
    // Nothing is left to do at this time: on to the next.
    const std::uint64_t next_ns =
        std::min({near->node->next_deadline_ns(), far->node->next_deadline_ns(),
                  network.events().next_ns()});
    network.run_until(std::max(next_ns, network.now_ns() + 1));
  }
  return {.complete = completion.status == roce::WcStatus::success && near->memory == far->memory,
          .took_ns = network.now_ns() - start_ns,
          .lost = near->counter("faults", "tx_lost") + far->counter("faults", "tx_lost"),
          .sent = near->counter("engine", "sent_pkts")};
}

}  // namespace

int main() {
  const auto eal = must(stack::Eal::start({}, {.memory_mb = 256}));
  const Outcome once = transfer(1);
  std::printf("64 KiB in %.3f virtual ms: %llu packets sent, %llu lost in both directions\n",
              static_cast<double>(once.took_ns) * 1e-6, static_cast<unsigned long long>(once.sent),
              static_cast<unsigned long long>(once.lost));
  example::verify(once.complete, "all bytes have arrived");
  example::verify(once.lost > 0, "although packets were lost");
  example::verify(transfer(1) == once, "the same seed gives the same run");
  example::verify(transfer(2) != once, "another seed gives another one");
  return 0;
}
