// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Pools of initiators: who gets one, who waits, and for how long (DC-17, DC-35).
#include "dc/dci_pool.h"

#include <algorithm>
#include <deque>
#include <set>

#include <gtest/gtest.h>

#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test {
namespace {

using dc::PoolPolicy;
using dc::PoolTarget;
using roce::PostResult;
using roce::WcStatus;
using ::testing::Each;
using ::testing::ElementsAre;

/// A pool at node 0 and `targets` targets at node 1, each written to at a place of its own.
class DciPoolTest : public ::testing::Test {
 protected:
  void make(const dc::DciPoolConfig& config, std::size_t targets, std::uint8_t streams = 1) {
    dc::DciInit init = pair_.dci_init();
    init.streams = streams;
    init.max_rd_atomic = 1;  // READs take a round trip each
    auto pool = dc::DciPool::create(pair_.endpoint(0), init, config, [this](PoolTarget& target) {
      turns_.push_back(index_of(target));
      if (posts_in_turn_) {
        EXPECT_EQ(write(index_of(target)), PostResult::ok);
      }
    });
    ASSERT_TRUE(pool);
    pool_ = std::move(*pool);
    for (std::size_t i = 0; i < targets; ++i) {
      const dc::Dct& dct = pair_.make_dct();
      targets_.emplace_back(*pair_.ah(), dct.number(), dct.access_key());
    }
  }

  /// An 8-byte WRITE to target `i`.
  std::optional<PostResult> write(std::size_t i) { return write(i, i); }
  std::optional<PostResult> write(std::size_t i, std::uint64_t wr_id) {
    const roce::Sge element{pair_.va(0, 8 * i), 8, pair_.key(0)};
    roce::SendWr wr;
    wr.wr_id = wr_id;
    wr.sg_list = {&element, 1};
    wr.opcode = opcode_;
    wr.remote_addr = pair_.va(1, 8 * i) + (damaged_ == i ? DcPair::kMemoryBytes : 0);
    wr.rkey = pair_.key(1);
    return pool_->post_send(targets_[i], wr);
  }

  /// Until `count` requests have completed; their targets.
  std::vector<std::uint64_t> run(std::size_t count) {
    std::vector<std::uint64_t> done;
    EXPECT_TRUE(pair_.run_until([&] {
      for (const roce::Completion& completion : pair_.send_completions()) {
        done.push_back(completion.wr_id);
        statuses_.push_back(completion.status);
      }
      pool_->progress();
      return done.size() >= count;
    }));
    return done;
  }

  std::size_t index_of(const PoolTarget& target) const {
    std::size_t i = 0;
    while (&targets_[i] != &target) {
      ++i;
    }
    return i;
  }

  DcPair pair_;
  std::unique_ptr<dc::DciPool> pool_;
  std::deque<PoolTarget> targets_;  // the pool outlives them
  std::vector<std::size_t> turns_;
  std::vector<WcStatus> statuses_;
  std::size_t damaged_ = SIZE_MAX;  // whose WRITEs miss the memory
  roce::WrOpcode opcode_ = roce::WrOpcode::rdma_write;
  bool posts_in_turn_ = true;
};

TEST_F(DciPoolTest, WhoFindsNoneWaitsAndGetsItsTurnInOrder) {
  make({.policy = PoolPolicy::dcs, .dcis = 2}, 5);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(write(i), i < 2 ? std::optional(PostResult::ok) : std::nullopt) << i;
    EXPECT_EQ(targets_[i].waits(), i >= 2) << i;
  }
  EXPECT_EQ(write(3), std::nullopt) << "it waits already";
  EXPECT_EQ(run(5).size(), 5u);
  EXPECT_THAT(turns_, ElementsAre(2, 3, 4));
  EXPECT_THAT(statuses_, Each(WcStatus::success));
  pool_->progress();
  EXPECT_EQ(pool_->free_count(), 2u);
}

TEST_F(DciPoolTest, TheLastFreedIsTakenFirst) {
  make({.policy = PoolPolicy::dcs, .dcis = 8}, 1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(write(0), PostResult::ok);
    run(1);
  }
  EXPECT_EQ(pair_.sent().tx_connect.value(), 1u) << "the same initiator, connected still";
}

TEST_F(DciPoolTest, StreamsAreInitiatorsToo) {
  make({.policy = PoolPolicy::dcs, .dcis = 2}, 7, 3);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(write(i).has_value(), i < 6) << i;
  }
  run(7);
  EXPECT_THAT(turns_, ElementsAre(6));
}

TEST_F(DciPoolTest, WithoutAQuotaATargetKeepsItsOwn) {
  make({.policy = PoolPolicy::dcs, .dcis = 1, .quota = 4}, 2);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(write(0), PostResult::ok);
  }
  EXPECT_EQ(write(1), std::nullopt);
  EXPECT_EQ(write(0), PostResult::ok);
}

TEST_F(DciPoolTest, WithAQuotaItGivesWayToThoseThatWait) {
  make({.policy = PoolPolicy::dcs_quota, .dcis = 1, .quota = 4}, 2);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(write(0), PostResult::ok) << "nobody waits";
  }
  EXPECT_EQ(write(1), std::nullopt);
  EXPECT_EQ(write(0), std::nullopt);
  EXPECT_THAT(run(8), ElementsAre(0, 0, 0, 0, 0, 0, 1, 0));
  EXPECT_THAT(turns_, ElementsAre(1, 0));
}

TEST_F(DciPoolTest, WhoGivesWayDoesNotPassHimself) {
  make({.policy = PoolPolicy::dcs_quota, .dcis = 3, .quota = 4}, 4);
  constexpr std::uint64_t kMany = 20;
  opcode_ = roce::WrOpcode::rdma_read;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(write(0, 100 + i), PostResult::ok) << i;
  }
  opcode_ = roce::WrOpcode::rdma_write;
  EXPECT_EQ(write(1), PostResult::ok);
  EXPECT_EQ(write(2), PostResult::ok);
  EXPECT_EQ(write(3), std::nullopt);
  EXPECT_EQ(write(0), std::nullopt);  // its turn comes while it has requests outstanding
  const std::vector<std::uint64_t> done = run(kMany + 4);
  const auto last = std::find(done.begin(), done.end(), 0u);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    EXPECT_LT(std::find(done.begin(), done.end(), 100 + i), last) << "request " << i;
  }
  EXPECT_THAT(turns_, ElementsAre(3, 0));
  pool_->progress();
  EXPECT_EQ(pool_->free_count(), 3u);
}

TEST_F(DciPoolTest, ATurnThatIsNotUsedIsTheNextOnes) {
  make({.policy = PoolPolicy::dcs, .dcis = 1}, 3);
  posts_in_turn_ = false;
  EXPECT_EQ(write(0), PostResult::ok);
  EXPECT_EQ(write(1), std::nullopt);
  EXPECT_EQ(write(2), std::nullopt);
  run(1);
  pool_->progress();
  pool_->progress();
  EXPECT_THAT(turns_, ElementsAre(1, 2));
  EXPECT_EQ(pool_->free_count(), 1u);
}

TEST_F(DciPoolTest, SharedInitiatorsLetNobodyWait) {
  for (const PoolPolicy policy : {PoolPolicy::hash, PoolPolicy::random}) {
    targets_.clear();
    make({.policy = policy, .dcis = 4}, 32);
    const std::uint64_t before = pair_.sent().tx_connect.value();
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < 32; ++i) {
        EXPECT_EQ(write(i), PostResult::ok) << i;
      }
    }
    EXPECT_EQ(run(64).size(), 64u);
    EXPECT_GE(pair_.sent().tx_connect.value() - before, 32u);
    EXPECT_TRUE(turns_.empty());
    EXPECT_EQ(pool_->free_count(), 0u);
  }
  EXPECT_THAT(statuses_, Each(WcStatus::success));
}

TEST_F(DciPoolTest, AnErrorCostsNobodyElseTheInitiator) {
  make({.policy = PoolPolicy::dcs, .dcis = 1}, 2);
  damaged_ = 0;
  EXPECT_EQ(write(0), PostResult::ok);
  EXPECT_EQ(write(1), std::nullopt);
  run(2);
  EXPECT_THAT(statuses_, ElementsAre(WcStatus::rem_access_err, WcStatus::success));
}

TEST_F(DciPoolTest, ATargetThatIsGoneIsNotCalledAndLeavesItsInitiator) {
  make({.policy = PoolPolicy::dcs, .dcis = 1}, 3);
  EXPECT_EQ(write(1), PostResult::ok);
  EXPECT_EQ(write(0), std::nullopt);
  EXPECT_EQ(write(2), std::nullopt);
  targets_.pop_back();
  targets_.pop_front();
  targets_.pop_front();
  run(1);
  EXPECT_TRUE(turns_.empty());
  EXPECT_EQ(pool_->free_count(), 1u);
}

TEST_F(DciPoolTest, WhatCannotBeMade) {
  const auto made = [this](const dc::DciPoolConfig& config) {
    return dc::DciPool::create(pair_.endpoint(0), pair_.dci_init(), config, {}).has_value();
  };
  EXPECT_TRUE(made({}));
  EXPECT_FALSE(made({.dcis = 0}));
  EXPECT_FALSE(made({.dcis = 1025}));
  EXPECT_FALSE(made({.quota = 0}));
}

}  // namespace
}  // namespace rockhopper::test
