// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What a scope of a lock costs its initiator and its target, and what scopes that wait cost the
// other connections of the target. Without a link.
#include <algorithm>
#include <array>
#include <vector>

#include <benchmark/benchmark.h>
#include <rte_cycles.h>

#include "bench/engine_pair.h"
#include "roce/lock/local_lock.h"
#include "roce/lock/scope_builder.h"

namespace rockhopper::bench {
namespace {

constexpr std::uint32_t kScopeRequests = 3;  ///< acquire, FETCH_ADD, release
constexpr std::uint32_t kWordBytes = 8;

double seconds(std::uint64_t cycles) {
  return static_cast<double>(cycles) / static_cast<double>(rte_get_tsc_hz());
}

/// The lock word is the first of the responder's memory, the counter the second.
class Scopes {
 public:
  explicit Scopes(const EnginePairConfig& config) : pair_(config) {}

  void post_scope(std::uint32_t qp) {
    const roce::MemoryRegion& remote = pair_.region(EnginePair::responder);
    roce::lock::ScopeBuilder scope({.addr = remote.iova, .rkey = remote.key});
    const roce::Sge sge = local();
    const bool fits = scope.access({.sg_list = {&sge, 1},
                                    .opcode = roce::WrOpcode::atomic_fetch_and_add,
                                    .remote_addr = remote.iova + kWordBytes,
                                    .rkey = remote.key,
                                    .compare_add = 1});
    if (!fits || scope.post(pair_.qp(qp), qp, nullptr) != roce::PostResult::ok) failed_ = true;
  }
  /// Elsewhere than lock and counter.
  void post_write(std::uint32_t qp) {
    const roce::MemoryRegion& remote = pair_.region(EnginePair::responder);
    const roce::Sge sge = local();
    const roce::PostResult posted = pair_.qp(qp).post_send({.wr_id = qp,
                                                            .sg_list = {&sge, 1},
                                                            .opcode = roce::WrOpcode::rdma_write,
                                                            .send_flags = roce::kSendSignaled,
                                                            .remote_addr = remote.iova + 4096,
                                                            .rkey = remote.key});
    if (posted != roce::PostResult::ok) failed_ = true;
  }

  /// Moves one burst each way; `post(qp)` replaces what has ended. How many operations that were.
  template <typename Post>
  std::uint64_t turn(Post&& post) {
    pair_.exchange();
    std::array<roce::Completion, 64> completions;
    const std::size_t ended = pair_.cq(EnginePair::requester).poll(completions);
    for (std::size_t i = 0; i < ended; ++i) {
      if (completions[i].status != roce::WcStatus::success) failed_ = true;
      post(static_cast<std::uint32_t>(completions[i].wr_id));
    }
    return ended;
  }

  [[nodiscard]] EnginePair& pair() { return pair_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  [[nodiscard]] roce::Sge local() const {
    const roce::MemoryRegion& region = pair_.region(EnginePair::requester);
    return {.addr = region.iova, .length = kWordBytes, .lkey = region.key};
  }

  EnginePair pair_;
  bool failed_ = false;
};

/// All for one lock. Argument: connections.
template <EnginePair::Side kSide>
void scope(benchmark::State& state) {
  const auto qps = static_cast<std::uint32_t>(state.range(0));
  const std::uint32_t window = qps == 1 ? 16 : 1;
  Scopes scopes({.qps = qps, .outstanding = kScopeRequests * window, .locks = true});
  const auto post = [&](std::uint32_t qp) { scopes.post_scope(qp); };
  for (std::uint32_t i = 0; i < qps * window; ++i) {
    post(i % qps);
  }
  std::uint64_t done = 0;
  for (auto _ : state) {
    done += scopes.turn(post);
    state.SetIterationTime(seconds(scopes.pair().take_cycles(kSide)));
  }
  if (scopes.failed()) state.SkipWithError("a scope failed");
  state.SetItemsProcessed(static_cast<std::int64_t>(done));
}
BENCHMARK(scope<EnginePair::requester>)
    ->Name("lock_scope/initiator")
    ->ArgName("qps")
    ->Arg(1)
    ->Arg(64)
    ->UseManualTime();
BENCHMARK(scope<EnginePair::responder>)
    ->Name("lock_scope/target")
    ->ArgName("qps")
    ->Arg(1)
    ->Arg(64)
    ->UseManualTime();

/// WRITEs of other connections while scopes wait for a lock that a thread of the target holds
/// (LK-25): the target's time. A turn, thus a look by the timer, comes no more often than by a
/// real clock. Argument: how many wait.
void beside_waiting(benchmark::State& state) {
  constexpr std::uint32_t kOthers = 63;
  constexpr std::uint32_t kScopesAtOnce = 4;
  const auto waiting = static_cast<std::uint32_t>(state.range(0));
  Scopes scopes(
      {.qps = kOthers + waiting, .outstanding = kScopesAtOnce, .locks = true, .turn_ns = 4000});
  EnginePair& pair = scopes.pair();
  const roce::MemoryRegion& memory = pair.region(EnginePair::responder);
  roce::lock::LocalLock held(pair.locks(), reinterpret_cast<std::uint64_t*>(memory.base), 1);
  if (!held.try_lock()) state.SkipWithError("the lock is not to be had");
  for (std::uint32_t qp = kOthers; qp < kOthers + waiting; ++qp) {
    scopes.post_scope(qp);
  }
  const auto waits = [&] { return pair.locks().statistics().waits.load(); };
  const auto post = [&](std::uint32_t qp) { scopes.post_write(qp); };
  for (std::uint32_t turn = 0; turn < 10'000 && waits() < waiting; ++turn) {
    scopes.turn(post);
  }
  if (waits() < waiting) state.SkipWithError("not all wait");

  for (std::uint32_t i = 0; i < kOthers * kScopesAtOnce; ++i) {
    post(i % kOthers);
  }
  for (int turn = 0; turn < 1000; ++turn) {
    scopes.turn(post);
  }
  (void)pair.take_cycles(EnginePair::responder);
  std::vector<std::uint64_t> turns;
  std::uint64_t done = 0;
  for (auto _ : state) {
    done += scopes.turn(post);
    turns.push_back(pair.take_cycles(EnginePair::responder));
    state.SetIterationTime(seconds(turns.back()));
  }
  if (scopes.failed()) state.SkipWithError("a WRITE failed");
  state.SetItemsProcessed(static_cast<std::int64_t>(done));
  const auto p99 = turns.begin() + static_cast<std::ptrdiff_t>(turns.size() * 99 / 100);
  std::nth_element(turns.begin(), p99, turns.end());
  state.counters["turn_p99_ns"] = seconds(*p99) * 1e9;
}
BENCHMARK(beside_waiting)
    ->Name("lock_beside_waiting")
    ->ArgName("scopes")
    ->Arg(0)
    ->Arg(1)
    ->Arg(1000)
    ->UseManualTime();

}  // namespace
}  // namespace rockhopper::bench
