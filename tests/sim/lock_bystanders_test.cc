// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// LK-25: who waits for a lock holds up nobody but his own queue pair.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "roce/lock/local_lock.h"
#include "roce/lock/scope_builder.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

constexpr std::size_t kQueuePairs = 64;  ///< the first is the one that waits
constexpr std::uint64_t kDurationNs = 20'000'000;
constexpr std::uint64_t kMaxPauseNs = 50'000;
constexpr std::uint32_t kBytes = 64;

struct Outcome {
  std::vector<std::uint64_t> latencies_ns;  ///< of the WRITEs of all others, sorted
  bool waited = false;                      ///< the scope, to the end
  roce::WcStatus scope = roce::WcStatus::general_err;
  std::uint64_t requests_again = 0;  ///< received by the target
};

/// A pair of connected queue pairs; that of node 0.
roce::QueuePair& connect(SimNetwork& network, const std::array<roce::ProtectionDomain, 2>& pds,
                         roce::CompletionQueue& cq) {
  std::array<roce::QueuePair*, 2> qps{};
  for (unsigned node = 0; node < 2; ++node) {
    qps[node] = must(network.node(node).engine().create_qp(
        {.pd = pds[node], .send_cq = &cq, .recv_cq = &cq, .lock_execution = true}));
  }
  roce::QpAttributes attributes;
  attributes.path_mtu = roce::PathMtu::mtu_1024;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 8;
  attributes.min_rnr_timer = 1;
  attributes.timeout = 9;  // 2 ms
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  network.connect(qps, attributes);
  return *qps[0];
}

/// 63 queue pairs WRITE one message at a time; one has a scope, whose word is held by a thread of
/// the target to the end of the run, or not.
Outcome run(bool held) {
  Outcome outcome;
  Rng rng(25);
  std::vector<std::uint64_t> cells(64);  // a word, then what the scope writes, then what others do
  std::array<std::uint64_t, 8> source{};
  roce::lock::Region region(cells.data(), cells.size() * sizeof cells[0], {});
  SimNetwork network({.seed = 25, .pools = &pools(), .delay_ns = 5'000});
  auto cq = must(roce::CompletionQueue::create(1024));
  const std::array pds{network.node(0).engine().allocate_pd(),
                       network.node(1).engine().allocate_pd()};
  const auto local = must(network.node(0).engine().register_memory(
      pds[0], source.data(), sizeof source, roce::kAccessAll));
  const auto remote = must(network.node(1).engine().register_memory(
      pds[1], cells.data(), cells.size() * sizeof cells[0], roce::kAccessAll));
  network.node(1).engine().attach_locks(region);
  std::vector<roce::QueuePair*> qps;
  for (std::size_t i = 0; i < kQueuePairs; ++i) {
    qps.push_back(&connect(network, pds, *cq));
  }

  const roce::Sge sge{reinterpret_cast<std::uintptr_t>(source.data()), kBytes, local.key};
  const auto address = [&cells](std::size_t cell) {
    return reinterpret_cast<std::uintptr_t>(&cells[cell]);
  };
  roce::lock::LocalLock lock(region, cells.data(), 9);
  EXPECT_TRUE(!held || lock.try_lock());
  roce::lock::ScopeBuilder scope({.addr = address(0), .rkey = remote.key});
  EXPECT_TRUE(scope.write(sge, address(8), remote.key));
  roce::lock::ScopeResult result;
  EXPECT_EQ(scope.post(*qps[0], 0, &result), roce::PostResult::ok);
  outcome.waited = true;

  const std::uint64_t end_ns = network.now_ns() + kDurationNs;
  std::vector<std::uint64_t> posted_ns(kQueuePairs);  // 0: nothing under way
  std::vector<std::uint64_t> next_ns(kQueuePairs);
  for (std::uint64_t& next : next_ns) {
    next = network.now_ns() + rng.between(0, kMaxPauseNs);
  }
  while (network.now_ns() < end_ns) {
    std::uint64_t soonest_ns = end_ns;
    for (std::size_t i = 1; i < kQueuePairs; ++i) {
      if (posted_ns[i] == 0 && network.now_ns() >= next_ns[i]) {
        EXPECT_EQ(qps[i]->post_send({.wr_id = i,
                                     .sg_list = {&sge, 1},
                                     .opcode = roce::WrOpcode::rdma_write,
                                     .send_flags = roce::kSendSignaled,
                                     .remote_addr = address(16),
                                     .rkey = remote.key}),
                  roce::PostResult::ok);
        posted_ns[i] = network.now_ns();
      }
      if (posted_ns[i] == 0) soonest_ns = std::min(soonest_ns, next_ns[i]);
    }
    while (network.poll()) {
    }
    std::array<roce::Completion, 16> some;
    while (const std::size_t count = cq->poll(some)) {
      for (const roce::Completion& completion : std::span(some).first(count)) {
        const std::size_t i = completion.wr_id;
        EXPECT_EQ(completion.status, roce::WcStatus::success);
        if (i == 0) {
          outcome.waited = false;
          continue;
        }
        outcome.latencies_ns.push_back(network.now_ns() - posted_ns[i]);
        posted_ns[i] = 0;
        next_ns[i] = network.now_ns() + rng.between(0, kMaxPauseNs);
        soonest_ns = std::min(soonest_ns, next_ns[i]);
      }
    }
    if (!network.advance(soonest_ns)) network.advance_to(std::max(soonest_ns, network.now_ns()));
  }
  if (held) lock.unlock();
  (void)network.run_to_rest(end_ns + kDurationNs);  // its hosts have timers of their own
  outcome.scope = result.status;
  outcome.requests_again = network.node(1).engine().counters().duplicate_request.value();
  std::ranges::sort(outcome.latencies_ns);
  return outcome;
}

TEST(LockBystanders, AScopeThatWaitsHoldsUpNobodyElse) {
  const Outcome free = run(false);
  const Outcome held = run(true);
  EXPECT_FALSE(free.waited);
  EXPECT_TRUE(held.waited) << "it waits to the end";
  EXPECT_EQ(free.scope, roce::WcStatus::success);
  EXPECT_EQ(held.scope, roce::WcStatus::success);
  EXPECT_EQ(held.requests_again, 0u) << "LK-15: nothing is sent again meanwhile";
  ASSERT_GT(free.latencies_ns.size(), 10'000u);
  ASSERT_GT(held.latencies_ns.size(), 10'000u);
  const auto p99 = [](const Outcome& outcome) {
    return outcome.latencies_ns[outcome.latencies_ns.size() * 99 / 100];
  };
  EXPECT_LE(p99(held), p99(free) * 105 / 100);
  EXPECT_LE(held.latencies_ns.back(), free.latencies_ns.back() * 105 / 100);
}

}  // namespace
}  // namespace rockhopper::sim
