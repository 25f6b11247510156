// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Dynamic connections: what a WRITE costs each end when the target stays and when it is another one
// each time, without a link, and the memory that a peer takes.
#include <array>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <rte_cycles.h>

#include "bench/engine_pair.h"
#include "dc/endpoint.h"

namespace rockhopper::bench {
namespace {

constexpr std::uint32_t kOutstanding = 64;
constexpr std::uint32_t kBytes = 8;

dc::EndpointConfig endpoint_config(std::uint32_t contexts = 1024, std::uint32_t tombstones = 4096) {
  dc::EndpointConfig config;
  config.sessions.contexts = contexts;
  config.sessions.tombstones = tombstones;
  return config;
}

/// An initiator that has WRITEs outstanding to `targets` in turn.
class Turns {
 public:
  explicit Turns(std::uint32_t targets)
      : pair_({.outstanding = kOutstanding}),
        initiator_(must(dc::Endpoint::create(pair_.engine(EnginePair::requester), {}))),
        target_(must(dc::Endpoint::create(pair_.engine(EnginePair::responder), {}))),
        srq_(must(
            pair_.engine(EnginePair::responder)
                .create_srq({.pd = pair_.pd(EnginePair::responder), .attributes = {.max_wr = 1}}))),
        ah_(must(pair_.engine(EnginePair::requester)
                     .create_ah(pair_.pd(EnginePair::requester),
                                {.source = EnginePair::address(EnginePair::requester),
                                 .destination = EnginePair::address(EnginePair::responder)}))) {
    dc::DciInit dci;
    dci.pd = pair_.pd(EnginePair::requester);
    dci.send_cq = &pair_.cq(EnginePair::requester);
    dci.max_send_wr = kOutstanding;
    dci_ = must(initiator_->create_dci(dci));
    dc::DctInit dct;
    dct.pd = pair_.pd(EnginePair::responder);
    dct.srq = srq_;
    dct.recv_cq = &pair_.cq(EnginePair::responder);
    dct.access_flags = roce::kAccessRemoteWrite;
    while (dcts_.size() < targets) {
      dcts_.push_back(must(target_->create_dct(dct)));
    }
  }

  [[nodiscard]] EnginePair& pair() { return pair_; }

  void fill() {
    while (dci_->send_queue_depth() < kOutstanding) {
      post();
    }
  }

  /// Moves one burst each way and replaces what has ended; returns how many operations that were.
  std::uint64_t turn() {
    pair_.exchange();
    std::array<roce::Completion, kOutstanding> completions;
    const std::size_t ended = pair_.cq(EnginePair::requester).poll(completions);
    for (std::size_t i = 0; i < ended; ++i) {
      if (completions[i].status != roce::WcStatus::success) failed_ = true;
      post();
    }
    return ended;
  }

  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void post() {
    const roce::MemoryRegion& local = pair_.region(EnginePair::requester);
    const roce::MemoryRegion& remote = pair_.region(EnginePair::responder);
    const roce::Sge sge{.addr = local.iova, .length = kBytes, .lkey = local.key};
    const dc::Dct& dct = *dcts_[posted_++ % dcts_.size()];
    const roce::PostResult result = dci_->post_send({.sg_list = {&sge, 1},
                                                     .opcode = roce::WrOpcode::rdma_write,
                                                     .send_flags = roce::kSendSignaled,
                                                     .remote_addr = remote.iova,
                                                     .rkey = remote.key,
                                                     .ah = ah_,
                                                     .remote_qpn = dct.number(),
                                                     .dc_access_key = dct.access_key()});
    if (result != roce::PostResult::ok) failed_ = true;
  }

  EnginePair pair_;
  std::unique_ptr<dc::Endpoint> initiator_;
  std::unique_ptr<dc::Endpoint> target_;
  roce::SharedReceiveQueue* srq_;
  roce::AddressHandle* ah_;
  dc::Dci* dci_ = nullptr;
  std::vector<dc::Dct*> dcts_;
  std::uint64_t posted_ = 0;
  bool failed_ = false;
};

/// Argument: number of targets.
template <EnginePair::Side kSide>
void dc_write(benchmark::State& state) {
  Turns turns(static_cast<std::uint32_t>(state.range(0)));
  turns.fill();
  std::uint64_t operations = 0;
  for (auto _ : state) {
    operations += turns.turn();
    state.SetIterationTime(static_cast<double>(turns.pair().take_cycles(kSide)) /
                           static_cast<double>(rte_get_tsc_hz()));
  }
  if (turns.failed()) state.SkipWithError("an operation failed");
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
}
BENCHMARK(dc_write<EnginePair::requester>)
    ->Name("dc_initiator/rdma_write")
    ->ArgName("targets")
    ->Arg(1)
    ->Arg(2)
    ->Arg(1000)
    ->UseManualTime();
BENCHMARK(dc_write<EnginePair::responder>)
    ->Name("dc_target/rdma_write")
    ->ArgName("targets")
    ->Arg(1)
    ->Arg(2)
    ->Arg(1000)
    ->UseManualTime();

/// Bytes that the allocator has given.
double bytes_used() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

/// What both ends take for each target beyond the target itself, once all have been written to
/// (DC-22).
double bytes_per_target() {
  constexpr std::uint32_t kTargets = 10'000;
  Turns turns(kTargets);
  turns.fill();
  const double before = bytes_used();
  for (std::uint64_t done = 0; done < kTargets && !turns.failed();) {
    done += turns.turn();
  }
  return (bytes_used() - before) / kTargets;
}

/// What an endpoint takes for each of these beyond the ones in `less`.
double bytes_per(const dc::EndpointConfig& less, const dc::EndpointConfig& more,
                 std::uint32_t difference) {
  EnginePair pair({});
  const double before = bytes_used();
  const auto small = must(dc::Endpoint::create(pair.engine(EnginePair::requester), less));
  const double between = bytes_used();
  const auto large = must(dc::Endpoint::create(pair.engine(EnginePair::responder), more));
  return ((bytes_used() - between) - (between - before)) / difference;
}

void dc_state_target_served(benchmark::State& state) {
  for (auto _ : state) {
    state.counters["bytes"] = bytes_per_target();
  }
}
void dc_state_session(benchmark::State& state) {
  constexpr std::uint32_t kMore = 4096;
  for (auto _ : state) {
    state.counters["bytes"] = bytes_per(endpoint_config(kMore), endpoint_config(2 * kMore), kMore);
  }
}
void dc_state_tombstone(benchmark::State& state) {
  constexpr std::uint32_t kMore = 16'384;
  for (auto _ : state) {
    state.counters["bytes"] =
        bytes_per(endpoint_config(1024, kMore), endpoint_config(1024, 2 * kMore), kMore);
  }
}
BENCHMARK(dc_state_target_served)->Name("dc_state/target_served")->Iterations(1);
BENCHMARK(dc_state_session)->Name("dc_state/session")->Iterations(1);
BENCHMARK(dc_state_tombstone)->Name("dc_state/tombstone")->Iterations(1);

}  // namespace
}  // namespace rockhopper::bench
