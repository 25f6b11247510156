// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Many initiators and targets at once: who gets how much, and what becomes of it when a target or a
// peer goes.
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "dc/dci_pool.h"
#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test::load_test {
namespace {

using roce::WcStatus;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::uint64_t kNsPerMs = 1'000'000;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

/// Streams that write 8 bytes at a time, the next when the last is complete, to their targets in
/// turn. The places of a stream's WRITEs tell it from others.
class Loop {
 public:
  explicit Loop(DcPair& pair) : pair_(pair) {}

  void add(dc::Dci& dci, std::vector<const dc::Dct*> targets, std::uint8_t stream = 0) {
    writers_.push_back({.dci = &dci, .stream = stream, .targets = std::move(targets)});
  }
  void start() {
    for (std::size_t i = 0; i < writers_.size(); ++i) {
      post(i);
    }
  }
  /// Goes on for so long.
  void run_for(std::uint64_t ns) {
    const std::uint64_t end_ns = pair_.now_ns() + ns;
    while (pair_.now_ns() < end_ns) {
      while (pair_.network().poll()) {
      }
      if (!take() && !pair_.network().advance(end_ns)) pair_.network().advance_to(end_ns);
    }
  }
  /// Nothing new from now on; what is outstanding completes. False: it does not.
  [[nodiscard]] bool finish() {
    stopped_ = true;
    return pair_.run_until([this] {
      (void)take();
      return std::ranges::all_of(writers_, [](const Writer& writer) { return !writer.busy; });
    });
  }
  /// Completions with success, by writer.
  [[nodiscard]] std::vector<std::uint64_t> done() const {
    std::vector<std::uint64_t> all;
    for (const Writer& writer : writers_) {
      all.push_back(writer.done);
    }
    return all;
  }
  [[nodiscard]] std::uint64_t total() const {
    const auto all = done();
    return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
  }
  /// Other completions.
  [[nodiscard]] const std::map<WcStatus, std::uint64_t>& failed() const { return failed_; }

 private:
  struct Writer {
    dc::Dci* dci;
    std::uint8_t stream;
    std::vector<const dc::Dct*> targets;
    std::uint64_t done = 0;
    std::uint64_t posted = 0;
    bool busy = false;
  };

  void post(std::size_t i) {
    Writer& writer = writers_[i];
    writer.busy = true;
    pair_.write(*writer.dci, *writer.targets[writer.posted++ % writer.targets.size()], 8 * i,
                writer.stream);
  }
  /// False: there was no completion.
  bool take() {
    const auto completions = pair_.send_completions();
    for (const roce::Completion& completion : completions) {
      const std::size_t i = completion.wr_id / 8;
      writers_[i].busy = false;
      if (completion.status == WcStatus::success) {
        ++writers_[i].done;
      } else {
        ++failed_[completion.status];
      }
      if (!stopped_ && writers_[i].dci->state(writers_[i].stream) == roce::QpState::rts) post(i);
    }
    return !completions.empty();
  }

  DcPair& pair_;
  std::vector<Writer> writers_;
  std::map<WcStatus, std::uint64_t> failed_;
  bool stopped_ = false;
};

/// DC-14, DC-33: 64 initiators that never pause share 4 contexts for a minute. Whether they stay
/// with one target or go from one to the other, each gets its turn, and none fails.
TEST(DcLoad, FewContextsServeAllInitiators) {
  for (const std::size_t targets : {1u, 2u}) {
    DcPair pair({.sessions = {.contexts = 4}, .idle_ns = 5 * kNsPerMs}, {}, kNsPerMs);
    std::vector<const dc::Dct*> dcts;
    for (std::size_t i = 0; i < targets; ++i) {
      dcts.push_back(&pair.make_dct());
    }
    Loop loop(pair);
    for (unsigned i = 0; i < 64; ++i) {
      loop.add(pair.make_dci(), dcts);
    }
    loop.start();
    loop.run_for(60 * kNsPerSecond);
    EXPECT_TRUE(loop.finish());
    EXPECT_TRUE(loop.failed().empty());
    const auto done = loop.done();
    const std::uint64_t least = *std::ranges::min_element(done);
    EXPECT_GT(least, 0u);
    EXPECT_LT(*std::ranges::max_element(done), 3 * least);
    EXPECT_GT(pair.received().tx_cnak_no_context.value(), 0u);
    EXPECT_LT(pair.sent().tx_connect.value(), 5 * loop.total());
  }
}

/// DC-34: a target that drains and then goes, while 16 initiators write to it: who is connected
/// goes on, nobody new comes, each request has a definite end soon, and nothing is left.
TEST(DcLoad, TargetThatGoes) {
  DcPair pair({}, {}, 10'000);
  const roce::ProtectionDomain pd = pair.engine(1).allocate_pd();
  dc::Dct& other = pair.make_dct();
  dc::Dct& dct = pair.make_dct([&](auto& init) { init.pd = pd; });
  std::vector<std::uint8_t> memory(512);
  const auto region = pair.engine(1).register_memory(pd, memory.data(), memory.size(),
                                                     std::uint32_t{roce::kAccessAll});
  ASSERT_TRUE(region);
  std::vector<dc::Dci*> dcis;
  std::size_t outstanding = 0;
  std::map<WcStatus, std::uint64_t> seen;
  const wire::Qpn number = dct.number();
  const std::uint64_t access_key = dct.access_key();
  const auto post = [&](dc::Dci& dci) {
    ASSERT_EQ(pair.post(dci, other, roce::WrOpcode::rdma_write, 8, 0, 0,
                        [&](roce::SendWr& wr) {
                          wr.remote_qpn = number;
                          wr.dc_access_key = access_key;
                          wr.remote_addr = region->iova;
                          wr.rkey = region->key;
                        }),
              roce::PostResult::ok);
    ++outstanding;
  };
  const auto poll = [&] {
    for (const roce::Completion& completion : pair.send_completions()) {
      ++seen[completion.status];
      --outstanding;
    }
  };
  const auto load = [&](std::uint64_t ns) {
    const std::uint64_t end_ns = pair.now_ns() + ns;
    while (pair.now_ns() < end_ns) {
      for (dc::Dci* dci : dcis) {
        while (dci->state() == roce::QpState::rts && dci->send_queue_depth() < 4) {
          post(*dci);
        }
      }
      pair.run_for(5'000);
      poll();
    }
  };
  for (unsigned i = 0; i < 16; ++i) {
    dcis.push_back(&pair.make_dci([](auto& init) { init.timeout = 10; }));
  }
  load(2 * kNsPerMs);
  dct.drain();
  const std::uint64_t before = seen[WcStatus::success];
  load(2 * kNsPerMs);
  EXPECT_GT(seen[WcStatus::success], before);
  EXPECT_EQ(seen.size(), 1u) << "who is connected goes on";
  dc::Dci& late = pair.make_dci();
  post(late);
  pair.run_for(kNsPerMs);
  poll();
  EXPECT_EQ(seen[WcStatus::rem_abort_err], 1u);
  EXPECT_EQ(pair.received().tx_cnak_draining.value(), 1u);

  load(90'000);  // no whole number of round trips
  EXPECT_GT(outstanding, 0u);
  pair.endpoint(1).destroy_dct(&dct);
  EXPECT_EQ(pair.endpoint(1).session_count(), 0u);
  load(kNsPerMs);
  pair.run_for(50 * kNsPerMs);  // CNAKs that are too many at once come with a repetition
  poll();
  EXPECT_EQ(outstanding, 0u);
  EXPECT_EQ(seen[WcStatus::rem_abort_err], 1u + dcis.size()) << "the first of each, of its target";
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_GT(seen[WcStatus::wr_flush_err], 0u) << "and what was behind it";
  ASSERT_TRUE(pair.engine(1).deregister_memory(region->key));
  EXPECT_TRUE(pair.engine(1).deallocate_pd(pd));
  for (dc::Dci* dci : dcis) {
    ASSERT_TRUE(dci->reset());
    pair.write(*dci, other);
  }
  EXPECT_THAT(pair.statuses(dcis.size()), Each(WcStatus::success));
}

/// DC-25: a stream whose peer is dead costs the seven others nothing, and is revived.
TEST(DcLoad, StreamToADeadPeer) {
  const auto run = [](bool dead) {
    DcPair pair({}, {}, 20'000);
    const stack::IpAddress nobody = stack::IpAddress::from_ipv4(0x0a2a0063);
    EXPECT_TRUE(
        pair.network().node(0).host().add_static_neighbour(nobody, {{0x02, 0, 0, 0, 0, 0x63}}));
    dc::Dci& dci = pair.make_dci([](auto& init) {
      init.streams = 8;
      init.timeout = 8;
      init.retry_cnt = 3;
    });
    const dc::Dct& dct = pair.make_dct();
    roce::AddressHandle* live = pair.ah();
    const auto nowhere = pair.engine(0).create_ah(
        pair.dci_init().pd, {.source = pair.network().node(0).address(), .destination = nobody});
    EXPECT_TRUE(nowhere);
    Loop loop(pair);
    for (std::uint8_t stream = 0; stream < 8; ++stream) {
      loop.add(dci, {&dct}, stream);
    }
    if (dead) {
      pair.ah() = *nowhere;
      pair.write(dci, dct, 24, 3);
      pair.ah() = live;
    }
    loop.start();  // behind it, in stream 3
    loop.run_for(kNsPerSecond);
    EXPECT_EQ(dci.state(3) == roce::QpState::err, dead);
    EXPECT_EQ(loop.failed().contains(WcStatus::retry_exc_err), dead);
    auto done = loop.done();
    done.erase(done.begin() + 3);
    if (dead) {
      EXPECT_TRUE(dci.reset(3));
      EXPECT_TRUE(loop.finish());
      pair.write(dci, dct, 24, 3);
      EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
    }
    return std::accumulate(done.begin(), done.end(), std::uint64_t{0});
  };
  const std::uint64_t alive = run(false);
  const std::uint64_t dead = run(true);
  EXPECT_GT(alive, 1000u);
  EXPECT_GT(100 * dead, 99 * alive);
}

/// DC-36: where packets overtake each other, data may come before its connect. With half handshakes
/// that goes on, and all is right nevertheless; automatic ones are full from the second time on.
TEST(DcLoad, PathThatReorders) {
  const auto restarts = [](dc::Handshake handshake) {
    DcPair pair({}, {.rates{.reorder = 0.3, .reorder_max_ns = 3 * kNsPerMs}}, kNsPerMs);
    dc::Dci& dci = pair.make_dci([&](auto& init) {
      init.handshake = handshake;
      init.connect_with_data = false;  // what is in one packet cannot overtake itself
    });
    Loop loop(pair);
    loop.add(dci, {&pair.make_dct(), &pair.make_dct()});
    loop.start();
    for (unsigned i = 0; i < 20 && pair.sent().restarts.value() < 2; ++i) {
      loop.run_for(100 * kNsPerMs);
    }
    const std::uint64_t first = pair.sent().restarts.value();
    EXPECT_EQ(first >= 2, handshake != dc::Handshake::full);
    loop.run_for(9 * kNsPerSecond);
    EXPECT_TRUE(loop.finish());
    EXPECT_TRUE(loop.failed().empty());
    EXPECT_GT(loop.total(), 300u);
    return pair.sent().restarts.value() - first;
  };
  EXPECT_GT(restarts(dc::Handshake::half), 10u);
  EXPECT_EQ(restarts(dc::Handshake::automatic), 0u);
  EXPECT_EQ(restarts(dc::Handshake::full), 0u);
}

/// 256 targets of a pool of 4 initiators, each of which gets one request after the other, and one
/// of which has 48 outstanding at any time. How much each got done.
std::vector<std::uint64_t> share_a_pool(dc::PoolPolicy policy) {
  constexpr std::size_t kTargets = 256;
  constexpr std::size_t kHog = 0;
  DcPair pair({}, {}, 20'000);
  std::unique_ptr<dc::DciPool> pool;
  std::deque<dc::PoolTarget> targets;  // the pool outlives them
  std::vector<std::uint64_t> done(kTargets);
  std::vector<std::uint32_t> outstanding(kTargets);
  const auto fill = [&](std::size_t i) {
    while (!targets[i].waits() && outstanding[i] < (i == kHog ? 48u : 1u)) {
      const roce::Sge element{pair.va(0, 8 * i), 8, pair.key(0)};
      roce::SendWr wr;
      wr.wr_id = i;
      wr.sg_list = {&element, 1};
      wr.opcode = roce::WrOpcode::rdma_write;
      wr.remote_addr = pair.va(1, 8 * i);
      wr.rkey = pair.key(1);
      if (pool->post_send(targets[i], wr) != roce::PostResult::ok) return;
      ++outstanding[i];
    }
  };
  auto made = dc::DciPool::create(pair.endpoint(0), pair.dci_init(), {.policy = policy, .dcis = 4},
                                  [&](dc::PoolTarget& turn) {
                                    std::size_t i = 0;
                                    while (&targets[i] != &turn) {
                                      ++i;
                                    }
                                    fill(i);
                                  });
  EXPECT_TRUE(made);
  pool = std::move(*made);
  for (std::size_t i = 0; i < kTargets; ++i) {
    const dc::Dct& dct = pair.make_dct();
    targets.emplace_back(*pair.ah(), dct.number(), dct.access_key());
  }
  for (std::size_t i = 0; i < kTargets; ++i) {
    fill(i);
  }
  const std::uint64_t end_ns = pair.now_ns() + 200 * kNsPerMs;
  EXPECT_TRUE(pair.run_until([&] {
    for (const roce::Completion& completion : pair.send_completions()) {
      EXPECT_EQ(completion.status, WcStatus::success);
      ++done[completion.wr_id];
      --outstanding[completion.wr_id];
      fill(completion.wr_id);
    }
    pool->progress();
    return pair.now_ns() >= end_ns;
  }));
  return done;
}

/// DC-35: with a quota each target gets half of its fair share at least; without, one that never
/// pauses takes so much that others do not.
TEST(DcLoad, AQuotaKeepsAPoolFair) {
  const auto least_of_fair_share = [](dc::PoolPolicy policy) {
    const auto done = share_a_pool(policy);
    const double total =
        static_cast<double>(std::accumulate(done.begin(), done.end(), std::uint64_t{0}));
    return static_cast<double>(*std::ranges::min_element(done)) * 256 / total;
  };
  EXPECT_GE(least_of_fair_share(dc::PoolPolicy::dcs_quota), 0.5);
  EXPECT_LT(least_of_fair_share(dc::PoolPolicy::dcs), 0.5);
}

}  // namespace
}  // namespace rockhopper::test::load_test
