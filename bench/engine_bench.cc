// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What an operation costs the requester and what it costs the responder: all from the work request
// to the packet and from the packet to the completion queue, without a link.
#include <array>

#include <benchmark/benchmark.h>
#include <rte_cycles.h>

#include "bench/engine_pair.h"

namespace rockhopper::bench {
namespace {

using roce::WrOpcode;

bool is_send(WrOpcode opcode) { return opcode == WrOpcode::send; }

/// Keeps every connection busy with as many operations as may be outstanding.
class Load {
 public:
  Load(EnginePair& pair, const EnginePairConfig& config, WrOpcode opcode, std::uint32_t length)
      : pair_(pair),
        opcode_(opcode),
        local_(sge(EnginePair::requester, length)),
        remote_(sge(EnginePair::responder, length)) {
    for (std::uint32_t i = 0; i < config.outstanding; ++i) {
      for (std::uint32_t qp = 0; qp < config.qps; ++qp) {
        if (is_send(opcode)) post_receive(qp);
        post(qp);
      }
    }
  }

  /// Moves one burst each way and replaces what has ended; returns how many operations that were.
  std::uint64_t turn() {
    pair_.exchange();
    std::array<roce::Completion, 64> completions;
    const std::size_t received = pair_.cq(EnginePair::responder).poll(completions);
    for (std::size_t i = 0; i < received; ++i) {
      post_receive(static_cast<std::uint32_t>(completions[i].wr_id));
    }
    const std::size_t ended = pair_.cq(EnginePair::requester).poll(completions);
    for (std::size_t i = 0; i < ended; ++i) {
      if (completions[i].status != roce::WcStatus::success) failed_ = true;
      post(static_cast<std::uint32_t>(completions[i].wr_id));
    }
    return ended;
  }

  [[nodiscard]] bool failed() const { return failed_; }

 private:
  [[nodiscard]] roce::Sge sge(EnginePair::Side side, std::uint32_t length) const {
    const roce::MemoryRegion& region = pair_.region(side);
    return {.addr = region.iova, .length = length, .lkey = region.key};
  }
  void post(std::uint32_t qp) {
    const roce::PostResult result =
        pair_.qp(qp).post_send({.wr_id = qp,
                                .sg_list = {&local_, 1},
                                .opcode = opcode_,
                                .send_flags = roce::kSendSignaled,
                                .remote_addr = is_send(opcode_) ? 0 : remote_.addr,
                                .rkey = is_send(opcode_) ? roce::MemoryKey{} : remote_.lkey});
    if (result != roce::PostResult::ok) failed_ = true;
  }
  void post_receive(std::uint32_t qp) {
    const roce::PostResult result =
        pair_.peer(qp).post_recv({.wr_id = qp, .sg_list = {&remote_, 1}});
    if (result != roce::PostResult::ok) failed_ = true;
  }

  EnginePair& pair_;
  WrOpcode opcode_;
  roce::Sge local_;
  roce::Sge remote_;
  bool failed_ = false;
};

/// Arguments: bytes, connections.
template <WrOpcode kOpcode, EnginePair::Side kSide>
void operation(benchmark::State& state) {
  const EnginePairConfig config{.qps = static_cast<std::uint32_t>(state.range(1)),
                                .outstanding = state.range(1) == 1 ? 64u : 4u};
  EnginePair pair(config);
  Load load(pair, config, kOpcode, static_cast<std::uint32_t>(state.range(0)));
  std::uint64_t operations = 0;
  for (auto _ : state) {
    operations += load.turn();
    state.SetIterationTime(static_cast<double>(pair.take_cycles(kSide)) /
                           static_cast<double>(rte_get_tsc_hz()));
  }
  if (load.failed()) state.SkipWithError("an operation failed");
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
  state.SetBytesProcessed(static_cast<std::int64_t>(operations) * state.range(0));
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"bytes", "qps"})->UseManualTime();
  for (const int bytes : {8, 4096, 65536}) {
    benchmark->Args({bytes, 1});
  }
  for (const int qps : {16, 1000, 20'000}) {
    benchmark->Args({8, qps});
  }
}
void word(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"bytes", "qps"})->UseManualTime();
  for (const int qps : {1, 16, 1000, 20'000}) {
    benchmark->Args({8, qps});
  }
}

#define ROCKHOPPER_BENCHMARK(opcode, arguments)                 \
  BENCHMARK(operation<WrOpcode::opcode, EnginePair::requester>) \
      ->Name("requester/" #opcode)                              \
      ->Apply(arguments);                                       \
  BENCHMARK(operation<WrOpcode::opcode, EnginePair::responder>) \
      ->Name("responder/" #opcode)                              \
      ->Apply(arguments)

ROCKHOPPER_BENCHMARK(send, sizes);
ROCKHOPPER_BENCHMARK(rdma_write, sizes);
ROCKHOPPER_BENCHMARK(rdma_read, sizes);
ROCKHOPPER_BENCHMARK(atomic_cmp_and_swp, word);
ROCKHOPPER_BENCHMARK(atomic_fetch_and_add, word);

#undef ROCKHOPPER_BENCHMARK

}  // namespace
}  // namespace rockhopper::bench
