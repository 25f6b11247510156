// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What locks cost on a path of 20 ms, in virtual time: one round trip for lock, access and unlock
// (LK-1 to LK-6); and how soon a waiting scope learns that the word is free (LK-27).
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "dc/endpoint.h"
#include "roce/lock/fallback.h"
#include "roce/lock/local_lock.h"
#include "roce/lock/scope_builder.h"
#include "tests/sim/seeded_runs.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {
namespace {

using roce::PostResult;
using roce::WcStatus;
using roce::lock::FallbackScope;
using roce::lock::LocalLock;
using roce::lock::LockWord;
using roce::lock::ScopeBuilder;
using roce::lock::ScopeResult;

constexpr std::uint64_t kDelayNs = 10'000'000;
constexpr std::uint64_t kRoundTripNs = 2 * kDelayNs;
constexpr std::uint64_t kLimitNs = 60'000'000'000;
constexpr std::uint32_t kRetryUs = 50;

enum class Transport { rc, dc };

/// An initiator at node 0, and at node 1 a lock word and 4 KiB that it guards.
class Path {
 public:
  explicit Path(Transport transport)
      : network_({.pools = &pools(), .delay_ns = kDelayNs}),
        cq_(must(roce::CompletionQueue::create(64))) {
    for (unsigned node = 0; node < 2; ++node) {
      pds_[node] = engine(node).allocate_pd();
      keys_[node] = must(engine(node).register_memory(pds_[node], &memory_[node], sizeof(Memory),
                                                      roce::kAccessAll))
                        .key;
    }
    std::memset(memory_[0].data.data(), 0xa5, memory_[0].data.size());
    engine(1).attach_locks(region_);
    if (transport == Transport::rc) {
      connect();
    } else {
      make_dci();
    }
  }

  [[nodiscard]] ScopeBuilder scope() const {
    ScopeBuilder scope({.addr = address(memory_[1].word), .rkey = keys_[1]});
    EXPECT_TRUE(scope.write(local(memory_[0].data), address(memory_[1].data), keys_[1]));
    return scope;
  }
  /// Round trips from here to the scope's completion.
  [[nodiscard]] double round_trips(ScopeBuilder scope) {
    ScopeResult result;
    const std::uint64_t begin_ns = network_.now_ns();
    EXPECT_EQ(post(scope, result), PostResult::ok);
    EXPECT_TRUE(run_until([&] { return take_completion(); }));
    EXPECT_EQ(result.status, WcStatus::success);
    return since(begin_ns);
  }
  /// The same by compare and swap.
  [[nodiscard]] double round_trips_of_fallback() {
    FallbackScope fallback(*qp_, local(memory_[0].word), memory_[0].word, {});
    ScopeBuilder what = scope();
    ScopeResult result;
    const std::uint64_t begin_ns = network_.now_ns();
    EXPECT_EQ(fallback.post(what, &result, begin_ns), PostResult::ok);
    EXPECT_TRUE(run_until([&] {
      std::array<roce::Completion, 4> done;
      const std::size_t count = cq_->poll(done);
      for (std::size_t i = 0; i < count; ++i) {
        (void)fallback.take(done[i], network_.now_ns());
      }
      return !fallback.busy();
    }));
    EXPECT_EQ(result.status, WcStatus::success);
    return since(begin_ns);
  }

  [[nodiscard]] PostResult post(ScopeBuilder& scope, ScopeResult& result) {
    if (qp_ != nullptr) return scope.post(*qp_, 1, &result);
    const dc::DciInit& init = dci_->init();
    return scope.post(
        [&](roce::SendWr& wr) {
          wr.ah = ah_;
          wr.remote_qpn = dct_->number();
          wr.dc_access_key = dct_->access_key();
          return dci_->post_send(wr);
        },
        {.path_mtu = bytes(init.path_mtu),
         .max_rd_atomic = init.max_rd_atomic,
         .room = init.max_send_wr,
         .max_sge = init.max_send_sge},
        1, &result);
  }

  /// False: not before the limit.
  template <typename Done>
  [[nodiscard]] bool run_until(Done&& done, std::uint64_t limit_ns = kLimitNs) {
    while (true) {
      while (network_.poll()) {
      }
      if (done()) return true;
      if (!network_.advance(limit_ns)) return false;
    }
  }
  /// Lets time pass to that moment.
  void run_to(std::uint64_t time_ns) {
    EXPECT_FALSE(run_until([] { return false; }, time_ns));
    network_.advance_to(time_ns);
  }

  [[nodiscard]] bool is_written() const {
    return std::memcmp(memory_[0].data.data(), memory_[1].data.data(), sizeof(Memory::data)) == 0;
  }
  [[nodiscard]] std::uint64_t& word() { return memory_[1].word; }
  void clear() { memory_[1].data.fill(std::byte{0}); }
  [[nodiscard]] roce::lock::Region& region() { return region_; }
  [[nodiscard]] SimNetwork& network() { return network_; }

 private:
  struct Memory {
    alignas(8) std::uint64_t word = 0;
    std::array<std::byte, 4096> data{};
  };

  [[nodiscard]] roce::Engine& engine(unsigned node) { return network_.node(node).engine(); }
  [[nodiscard]] double since(std::uint64_t begin_ns) const {
    return static_cast<double>(network_.now_ns() - begin_ns) / static_cast<double>(kRoundTripNs);
  }
  [[nodiscard]] bool take_completion() {
    std::array<roce::Completion, 4> done;
    return cq_->poll(done) > 0;
  }
  template <typename T>
  [[nodiscard]] static std::uint64_t address(const T& memory) {
    return reinterpret_cast<std::uintptr_t>(&memory);
  }
  template <typename T>
  [[nodiscard]] roce::Sge local(const T& memory) const {
    return {address(memory), sizeof(T), keys_[0]};
  }

  void connect() {
    std::array<roce::QueuePair*, 2> qps{};
    for (unsigned node = 0; node < 2; ++node) {
      qps[node] = must(engine(node).create_qp(
          {.pd = pds_[node], .send_cq = cq_.get(), .recv_cq = cq_.get(), .lock_execution = true}));
    }
    roce::QpAttributes attributes;
    attributes.path_mtu = roce::PathMtu::mtu_1024;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
    attributes.timeout = 18;
    network_.connect(qps, attributes);
    qp_ = qps[0];
  }

  void make_dci() {
    for (unsigned node = 0; node < 2; ++node) {
      endpoints_[node] = must(dc::Endpoint::create(
          engine(node), {.sessions = {.contexts = 4}, .lock_execution = true}));
    }
    auto* srq = must(engine(1).create_srq({.pd = pds_[1], .attributes = {.max_wr = 1}}));
    dct_ = must(endpoints_[1]->create_dct(
        {.pd = pds_[1], .srq = srq, .recv_cq = cq_.get(), .access_flags = roce::kAccessAll}));
    ah_ = must(engine(0).create_ah(pds_[0], {.source = network_.node(0).address(),
                                             .destination = network_.node(1).address()}));
    dci_ = must(endpoints_[0]->create_dci(
        {.pd = pds_[0], .send_cq = cq_.get(), .lock_execution = true, .timeout = 18}));
  }

  std::array<Memory, 2> memory_;  ///< of node 0: what the WRITE brings
  roce::lock::Region region_{&memory_[1], sizeof(Memory), {.retry_us = kRetryUs}};
  SimNetwork network_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::array<roce::ProtectionDomain, 2> pds_;
  std::array<roce::MemoryKey, 2> keys_{};
  roce::QueuePair* qp_ = nullptr;  // or
  std::array<std::unique_ptr<dc::Endpoint>, 2> endpoints_;
  dc::Dct* dct_ = nullptr;
  dc::Dci* dci_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
};

class LockPath : public ::testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(Transports, LockPath, ::testing::Values(Transport::rc, Transport::dc),
                         [](const auto& one) {
                           return one.param == Transport::rc ? "Rc" : "DynamicConnections";
                         });

/// LK-1, LK-2, LK-3, LK-4, LK-6: lock, WRITE of 4 KiB and unlock, the first of a connection too.
TEST_P(LockPath, AScopeTakesOneRoundTrip) {
  for (const auto forward :
       {ScopeBuilder::Forward::store_forward, ScopeBuilder::Forward::cut_through}) {
    Path path(GetParam());
    for (std::uint64_t generation = 1; generation <= 3; ++generation) {
      path.clear();
      const double round_trips = path.round_trips(path.scope().forward(forward));
      EXPECT_GE(round_trips, 1.0);
      EXPECT_LE(round_trips, 1.15);
      EXPECT_TRUE(path.is_written());
      EXPECT_TRUE(LockWord::from(path.word()).is_free());
      EXPECT_EQ(LockWord::from(path.word()).generation, generation);
    }
  }
}

/// The same by compare and swap takes three: one each to lock, to write and to unlock.
TEST(LockFallbackPath, TakesThreeRoundTrips) {
  Path path(Transport::rc);
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    path.clear();
    EXPECT_GE(path.round_trips_of_fallback(), 3.0);
    EXPECT_TRUE(path.is_written());
    EXPECT_EQ(LockWord::from(path.word()).generation, generation);
  }
}

/// LK-27: a thread of the target's process gives the word back by LocalLock. The scope that waits
/// is executed in the engine's next turn.
TEST_P(LockPath, ALocalReleaseIsNoticedInTheNextTurn) {
  Path path(GetParam());
  LocalLock holder(path.region(), &path.word(), 7);
  ASSERT_TRUE(holder.try_lock());
  ScopeBuilder scope = path.scope();
  ScopeResult result;
  ASSERT_EQ(path.post(scope, result), PostResult::ok);
  const std::uint64_t released_ns = path.network().now_ns() + 5 * kDelayNs;
  path.run_to(released_ns);
  EXPECT_FALSE(path.is_written());
  ASSERT_TRUE(holder.unlock());
  (void)path.network().node(1).node().turn();
  EXPECT_TRUE(path.is_written());
  EXPECT_EQ(path.network().now_ns(), released_ns);
  EXPECT_TRUE(path.run_until([&] { return result.status == WcStatus::success; }));
  EXPECT_EQ(path.network().now_ns(), released_ns + kDelayNs);
}

/// LK-27: somebody frees the word and tells nobody, as a store of another process does. It is seen
/// within two times of the retry timer.
TEST_P(LockPath, AReleaseThatNobodyTellsOfIsSeenWithinTwoRetries) {
  Path path(GetParam());
  LocalLock holder(path.region(), &path.word(), 7);
  ASSERT_TRUE(holder.try_lock());
  ScopeBuilder scope = path.scope();
  ScopeResult result;
  ASSERT_EQ(path.post(scope, result), PostResult::ok);
  const std::uint64_t released_ns = path.network().now_ns() + 5 * kDelayNs;
  path.run_to(released_ns);
  const std::atomic_ref word(path.word());
  word.store(freed(LockWord::from(word.load())).value());
  (void)path.network().node(1).node().turn();
  EXPECT_FALSE(path.is_written());
  EXPECT_TRUE(path.run_until([&] { return path.is_written(); }));
  EXPECT_LE(path.network().now_ns(), released_ns + std::uint64_t{2} * kRetryUs * 1000);
}

}  // namespace
}  // namespace rockhopper::sim
