// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Scopes whose session is lost.
#include <cstdint>

#include <gtest/gtest.h>

#include "roce/lock/region.h"
#include "roce/lock/scope_builder.h"
#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test {
namespace {

using roce::PostResult;
using roce::WcStatus;
using roce::lock::ScopeBuilder;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr std::size_t kLockWord = 0;
constexpr std::size_t kRecord = 64;

/// A target that has room for one session.
class DcLocks : public ::testing::Test {
 protected:
  explicit DcLocks(const sim::NetworkFaults& faults = {})
      : pair_({.sessions = {.contexts = 1}, .lock_execution = true}, faults) {
    pair_.engine(1).attach_locks(region_);
  }
  ~DcLocks() override { (void)pair_.engine(1).detach_locks(region_); }

  [[nodiscard]] dc::Dci& make_dci() {
    return pair_.make_dci([](dc::DciInit& init) {
      init.lock_execution = true;
      init.sq_sig_all = false;
      init.timeout = 19;  // 2.1 s
    });
  }

  void post_write(dc::Dci& dci, std::size_t offset) {
    const auto signaled = [](roce::SendWr& wr) { wr.send_flags = roce::kSendSignaled; };
    ASSERT_EQ(pair_.post(dci, dct_, roce::WrOpcode::rdma_write, 8, offset, 0, signaled),
              PostResult::ok);
  }

  /// A scope that writes the record.
  void post_scope(dc::Dci& dci, roce::lock::ScopeResult& result) {
    ScopeBuilder scope({.addr = pair_.va(1, kLockWord), .rkey = pair_.key(1)});
    ASSERT_TRUE(
        scope.write({pair_.va(0, kRecord), 8, pair_.key(0)}, pair_.va(1, kRecord), pair_.key(1)));
    const roce::lock::ScopeBuilder::Limits limits{
        .path_mtu = 1024, .max_rd_atomic = 8, .room = 8, .max_sge = 1};
    const auto post_one = [&](roce::SendWr& wr) {
      wr.ah = pair_.ah();
      wr.remote_qpn = dct_.number();
      wr.dc_access_key = dct_.access_key();
      return dci.post_send(wr);
    };
    ASSERT_EQ(scope.post(post_one, limits, 1, &result), PostResult::ok);
  }

  DcPair pair_;
  const dc::Dct& dct_ = pair_.make_dct();
  roce::lock::Region region_{pair_.memory(1), DcPair::kMemoryBytes, {}};
};

/// DC-27: the target had given the session away before the scope came, and says that nothing
/// of it has been executed: it is executed in the next session, all of it.
TEST_F(DcLocks, AScopeThatTheLostSessionHasNotSeenIsExecutedInTheNext) {
  dc::Dci& dci = make_dci();
  post_write(dci, 128);
  EXPECT_THAT(pair_.statuses(1), ElementsAre(WcStatus::success));
  post_write(make_dci(), 136);  // it takes the context
  EXPECT_THAT(pair_.statuses(1), ElementsAre(WcStatus::success));
  for (int i = 0; i < 2; ++i) {
    pair_.set_word(0, kRecord, 0x1234 + i);
    roce::lock::ScopeResult result;
    post_scope(dci, result);
    EXPECT_THAT(pair_.statuses(1), ElementsAre(WcStatus::success));
    EXPECT_EQ(result.status, WcStatus::success);
    EXPECT_EQ(pair_.word(1, kRecord), pair_.word(0, kRecord));
  }
  EXPECT_EQ(pair_.sent().lost_sessions.value(), 1u);
  EXPECT_EQ(region_.statistics().grants.load(), 2u);
}

/// Nothing of the target's first answers arrives, for as long as the connect is repeated.
class DcLocksUnheard : public DcLocks {
 protected:
  DcLocksUnheard() : DcLocks({.dropped_packets = first_packets(1, 12)}) {}
};

/// DC-27: it has executed the scope and has then given the session away. The scope is not executed
/// again, and has one completion.
TEST_F(DcLocksUnheard, AScopeThatTheLostSessionHasExecutedIsNotRepeated) {
  roce::lock::ScopeResult result;
  pair_.set_word(0, kRecord, 0x1234);
  dc::Dci& dci = make_dci();
  post_scope(dci, result);
  pair_.run_for(1'000'000'000);
  EXPECT_EQ(pair_.word(1, kRecord), 0x1234u);
  post_write(make_dci(), 128);  // it takes the context
  EXPECT_THAT(pair_.statuses(2),
              UnorderedElementsAre(WcStatus::success, WcStatus::outcome_unknown));
  EXPECT_EQ(result.status, WcStatus::outcome_unknown);
  EXPECT_EQ(region_.statistics().grants.load(), 1u);
  EXPECT_EQ(pair_.received().sessions_evicted.value(), 1u);
}

}  // namespace
}  // namespace rockhopper::test
