// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Memory windows of both types (IBTA vol. 1, 10.6.7).
#include <functional>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::memory_window_test {
namespace {

using roce::MemoryKey;
using roce::MemoryKind;
using roce::PostResult;
using roce::QpState;
using roce::WcOpcode;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::size_t kAt = 4096;
constexpr std::size_t kLength = 256;
constexpr std::uint32_t kParentAccess = roce::kAccessLocalWrite | roce::kAccessMwBind;

std::uint32_t number(MemoryKey key) { return static_cast<std::uint32_t>(key); }

struct WindowRig : Rig {
  explicit WindowRig(MemoryKind kind, const ConnectionOptions& options = {})
      : Rig(options),
        parent(add_region(0, 16384, kParentAccess)),
        window(*engine().allocate_window(pd(), kind)) {}

  [[nodiscard]] roce::MwBindInfo info(std::uint32_t access = roce::kAccessRemoteWrite) const {
    return {.mr = parent.key, .addr = va(kAt), .length = kLength, .access = access};
  }
  /// Posts a bind of either type, and takes its completion.
  WcStatus bind(const roce::MwBindInfo& info) {
    roce::SendWr wr{.wr_id = 7, .opcode = WrOpcode::bind_mw, .mw_bind = info};
    PostResult posted = PostResult::ok;
    if (window.kind == MemoryKind::window_type_1) {
      posted = qp().bind_mw(window.rkey, wr);
    } else {
      window.rkey = roce::next_generation(window.rkey);
      wr.rkey = window.rkey;
      posted = qp().post_send(wr);
    }
    EXPECT_EQ(posted, PostResult::ok);
    return completion();
  }
  WcStatus invalidate(MemoryKey key) {
    EXPECT_EQ(post({.wr_id = 8, .opcode = WrOpcode::local_inv, .invalidate_rkey = key}),
              PostResult::ok);
    return completion();
  }
  WcStatus completion() {
    EXPECT_THAT(sent(), ::testing::IsEmpty()) << "no packet carries it";
    const auto done = send_completions();
    EXPECT_FALSE(done.empty());
    return done.empty() ? WcStatus::general_err : done[0].status;
  }
  [[nodiscard]] Packet write(std::uint64_t at, MemoryKey key, std::uint32_t length = 8) {
    return write_packet(Opcode::rc_rdma_write_only, next_psn++,
                        {.va = at, .rkey = number(key), .length = length}, pattern(length));
  }
  /// A WRITE of 8 bytes is executed, or refused as an access error.
  bool writes(std::uint64_t at, MemoryKey key) {
    inject(write(at, key));
    const auto answer = sent();
    return answer.size() == 1 && answer[0].headers.aeth.kind() == wire::AethKind::ack;
  }

  roce::MemoryRegion parent;
  roce::MemoryWindow window;
  std::uint32_t next_psn = kPsn;
};

class MemoryWindows : public ::testing::TestWithParam<MemoryKind> {};
INSTANTIATE_TEST_SUITE_P(Types, MemoryWindows,
                         ::testing::Values(MemoryKind::window_type_1, MemoryKind::window_type_2),
                         [](const auto& tested) {
                           return tested.param == MemoryKind::window_type_1 ? "Type1" : "Type2";
                         });

TEST_P(MemoryWindows, BoundWindowGivesItsRangeAndRights) {
  WindowRig rig(GetParam());
  EXPECT_EQ(rig.bind(rig.info()), WcStatus::success);
  EXPECT_EQ(rig.counters().mw_binds.value(), 1u);
  EXPECT_TRUE(rig.writes(rig.va(kAt), rig.window.rkey));
  EXPECT_TRUE(rig.writes(rig.va(kAt + kLength - 8), rig.window.rkey));
  EXPECT_EQ(rig.memory_at(kAt, 8), pattern(8));
  EXPECT_TRUE(rig.untouched_outside(kAt, kLength));
  EXPECT_FALSE(rig.writes(rig.va(kAt + kLength - 7), rig.window.rkey)) << "one byte beyond";
}

TEST_P(MemoryWindows, BindCompletesAsItself) {
  WindowRig rig(GetParam());
  roce::SendWr wr{.wr_id = 7, .opcode = WrOpcode::bind_mw, .mw_bind = rig.info()};
  if (GetParam() == MemoryKind::window_type_1) {
    ASSERT_EQ(rig.qp().bind_mw(rig.window.rkey, wr), PostResult::ok);
  } else {
    wr.rkey = rig.window.rkey;
    ASSERT_EQ(rig.post(wr), PostResult::ok);
  }
  (void)rig.sent();
  const auto done = rig.send_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 7u);
  EXPECT_EQ(done[0].opcode, WcOpcode::bind_mw);
  EXPECT_EQ(rig.counters().rdma_sends.value(), 0u) << "no message";
}

TEST_P(MemoryWindows, UnboundWindowGivesNothing) {
  WindowRig rig(GetParam());
  EXPECT_FALSE(rig.writes(rig.va(kAt), rig.window.rkey));
}

TEST_P(MemoryWindows, ParentsOwnKeyStaysClosedToThePeer) {
  WindowRig rig(GetParam());
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  EXPECT_FALSE(rig.writes(rig.va(kAt), rig.parent.key));
}

TEST_P(MemoryWindows, RightThatWasNotGivenIsRefused) {
  WindowRig rig(GetParam());
  ASSERT_EQ(rig.bind(rig.info(roce::kAccessRemoteRead)), WcStatus::success);
  rig.inject(
      read_request(kPsn, {.va = rig.va(kAt), .rkey = number(rig.window.rkey), .length = 16}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsResponse(Opcode::rc_rdma_read_response_only, kPsn,
                                                 rig.memory_at(kAt, 16))));
  rig.next_psn = kPsn + 1;
  EXPECT_FALSE(rig.writes(rig.va(kAt), rig.window.rkey));
}

TEST_P(MemoryWindows, ZeroBasedWindowCountsFromItsStart) {
  WindowRig rig(GetParam());
  ASSERT_EQ(rig.bind(rig.info(roce::kAccessRemoteWrite | roce::kAccessZeroBased)),
            WcStatus::success);
  EXPECT_TRUE(rig.writes(16, rig.window.rkey));
  EXPECT_EQ(rig.memory_at(kAt + 16, 8), pattern(8));
  EXPECT_TRUE(rig.untouched_outside(kAt + 16, 8));
  EXPECT_FALSE(rig.writes(rig.va(kAt), rig.window.rkey));
}

TEST_P(MemoryWindows, KeyOfAWindowIsNoLocalKey) {
  WindowRig rig(GetParam());
  ASSERT_EQ(rig.bind(rig.info(roce::kAccessRemote)), WcStatus::success);
  const std::array<roce::Sge, 1> list{
      {{.addr = rig.va(kAt), .length = 8, .lkey = rig.window.rkey}}};
  ASSERT_EQ(rig.post({.wr_id = 1, .sg_list = list}), PostResult::ok);
  (void)rig.sent();
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::loc_prot_err)));
}

TEST_P(MemoryWindows, BadBindsFailTheQueuePair) {
  struct Case {
    const char* what;
    std::function<void(WindowRig&, roce::MwBindInfo&)> change;
  };
  const std::array cases{
      Case{"no such region", [](WindowRig& rig, auto& info) { info.mr = rig.invalid_key(); }},
      Case{"region without kAccessMwBind", [](WindowRig& rig, auto& info) { info.mr = rig.key(); }},
      Case{"beyond the region", [](WindowRig& rig, auto& info) { info.addr = rig.va(16384 - 8); }},
      Case{"before the region", [](WindowRig& rig, auto& info) { info.addr = rig.va(0) - 1; }},
      Case{"a local right", [](WindowRig&, auto& info) { info.access = roce::kAccessLocalWrite; }},
      Case{"write to a region that may not be written",
           [](WindowRig& rig, auto& info) {
             info.mr = rig.add_region(0, 16384, roce::kAccessMwBind).key;
           }},
      Case{"a window of a window", [](WindowRig& rig, auto& info) { info.mr = rig.window.rkey; }},
      Case{"a region of another domain",
           [](WindowRig& rig, auto& info) {
             const auto other = rig.engine().allocate_pd();
             info.mr = rig.engine().register_memory(other, rig.memory(), 16384, kParentAccess)->key;
           }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    WindowRig rig(GetParam());
    roce::MwBindInfo info = rig.info();
    one.change(rig, info);
    EXPECT_EQ(rig.bind(info), WcStatus::mw_bind_err);
    EXPECT_EQ(rig.qp().state(), QpState::err);
    EXPECT_EQ(rig.counters().memory_request_errors.value(), 1u);
    EXPECT_EQ(rig.counters().mw_binds.value(), 0u);
  }
}

TEST_P(MemoryWindows, WindowOfAnotherDomainIsRefused) {
  WindowRig rig(GetParam());
  const auto other = rig.engine().allocate_pd();
  rig.window = *rig.engine().allocate_window(other, GetParam());
  EXPECT_EQ(rig.bind(rig.info()), WcStatus::mw_bind_err);
}

TEST_P(MemoryWindows, RegionWithWindowsStays) {
  WindowRig rig(GetParam());
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  const auto gone = rig.engine().deregister_memory(rig.parent.key);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::busy);
  ASSERT_TRUE(rig.engine().deallocate_window(rig.window.rkey));
  EXPECT_FALSE(rig.writes(rig.va(kAt), rig.window.rkey));
  EXPECT_TRUE(rig.engine().deregister_memory(rig.parent.key));
}

TEST_P(MemoryWindows, DomainWithWindowsStays) {
  Rig rig;
  const auto pd = rig.engine().allocate_pd();
  const auto window = *rig.engine().allocate_window(pd, GetParam());
  EXPECT_FALSE(rig.engine().deallocate_pd(pd));
  EXPECT_FALSE(rig.engine().deregister_memory(window.rkey)) << "it is no region";
  EXPECT_TRUE(rig.engine().deallocate_window(roce::next_generation(window.rkey)));
  EXPECT_TRUE(rig.engine().deallocate_pd(pd));
  EXPECT_FALSE(rig.engine().deallocate_window(window.rkey));
}

TEST(MemoryWindowsOfType1, AreBoundAnewAndTheOldKeyIsStale) {
  WindowRig rig(MemoryKind::window_type_1);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  const MemoryKey old = rig.window.rkey;
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  EXPECT_EQ(rig.window.rkey, roce::next_generation(old));
  EXPECT_TRUE(rig.writes(rig.va(kAt), rig.window.rkey));
  EXPECT_FALSE(rig.writes(rig.va(kAt), old));
  EXPECT_EQ(rig.counters().stale_keys.value(), 1u);
}

TEST(MemoryWindowsOfType1, AreUnboundByABindOfNoBytes) {
  WindowRig rig(MemoryKind::window_type_1);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  ASSERT_EQ(rig.bind({}), WcStatus::success);
  EXPECT_TRUE(rig.engine().deregister_memory(rig.parent.key));
  EXPECT_FALSE(rig.writes(rig.va(kAt), rig.window.rkey));
}

TEST(MemoryWindowsOfType1, ServeAnyQueuePairOfTheDomain) {
  WindowRig rig(MemoryKind::window_type_1);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  roce::QueuePair& other = rig.make_qp({});
  rig.bring_up(other, {});
  Packet write = rig.write(rig.va(kAt), rig.window.rkey);
  write.headers.bth.destination = other.number();
  rig.inject(write);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
}

TEST(MemoryWindowsOfType1, AreNotForInvalidation) {
  WindowRig rig(MemoryKind::window_type_1);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  EXPECT_EQ(rig.invalidate(rig.window.rkey), WcStatus::mw_bind_err);
}

TEST(MemoryWindowsOfType1, AreNotBoundByPlainRequests) {
  WindowRig rig(MemoryKind::window_type_1);
  EXPECT_EQ(rig.post({.opcode = WrOpcode::bind_mw, .rkey = rig.window.rkey, .mw_bind = rig.info()}),
            PostResult::invalid_request);
}

TEST(MemoryWindowsOfType2, ServeOnlyTheQueuePairThatBoundThem) {
  WindowRig rig(MemoryKind::window_type_2);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  roce::QueuePair& other = rig.make_qp({});
  rig.bring_up(other, {});
  Packet write = rig.write(rig.va(kAt), rig.window.rkey);
  write.headers.bth.destination = other.number();
  rig.inject(write);
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

TEST(MemoryWindowsOfType2, MustBeInvalidToBeBound) {
  WindowRig rig(MemoryKind::window_type_2);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  EXPECT_EQ(rig.bind(rig.info()), WcStatus::mw_bind_err);
}

TEST(MemoryWindowsOfType2, LiveFromBindToInvalidateInEachGeneration) {
  WindowRig rig(MemoryKind::window_type_2);
  MemoryKey old{};
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
    ASSERT_TRUE(rig.writes(rig.va(kAt), rig.window.rkey));
    old = rig.window.rkey;
    ASSERT_EQ(rig.invalidate(rig.window.rkey), WcStatus::success);
  }
  EXPECT_EQ(rig.counters().local_invalidations.value(), 300u);
  EXPECT_FALSE(rig.writes(rig.va(kAt), old));
  EXPECT_TRUE(rig.engine().deregister_memory(rig.parent.key));
}

TEST(MemoryWindowsOfType2, KeyOfAnOldGenerationIsRefusedAndCounted) {
  WindowRig rig(MemoryKind::window_type_2);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  const MemoryKey old = rig.window.rkey;
  ASSERT_EQ(rig.invalidate(old), WcStatus::success);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  rig.inject(rig.write(rig.va(kAt), old));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
  EXPECT_EQ(rig.counters().stale_keys.value(), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

TEST(MemoryWindowsOfType2, AreInvalidatedByThePeer) {
  WindowRig rig(MemoryKind::window_type_2);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  rig.post_recv(1, 64, 1024);
  Packet send = packet(Opcode::rc_send_only_with_invalidate, kPsn, pattern(8));
  send.headers.ieth.rkey = number(rig.window.rkey);
  rig.inject(send);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_EQ(rig.recv_completions().at(0).invalidated_rkey, rig.window.rkey);
  EXPECT_EQ(rig.counters().remote_invalidations.value(), 1u);
  EXPECT_TRUE(rig.engine().deregister_memory(rig.parent.key)) << "nothing is bound to it";
}

TEST(MemoryWindowsOfType2, AreInvalidatedByTheirQueuePairOnly) {
  WindowRig rig(MemoryKind::window_type_2);
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  roce::QueuePair& other = rig.make_qp({});
  rig.bring_up(other, {});
  rig.post_recv(1, 64, 1024);
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 64, .lkey = rig.key()}}};
  ASSERT_EQ(other.post_recv({.wr_id = 2, .sg_list = list}), PostResult::ok);
  Packet send = packet(Opcode::rc_send_only_with_invalidate, kPsn, pattern(8));
  send.headers.ieth.rkey = number(rig.window.rkey);
  send.headers.bth.destination = other.number();
  rig.inject(send);
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
  EXPECT_EQ(rig.counters().remote_invalidations.value(), 0u);
  EXPECT_TRUE(rig.writes(rig.va(kAt), rig.window.rkey)) << "still bound";
}

TEST(MemoryWindowsOfType2, UnreliableConnectionsBindToo) {
  WindowRig rig(MemoryKind::window_type_2, {.qp_type = roce::QpType::uc});
  ASSERT_EQ(rig.bind(rig.info()), WcStatus::success);
  rig.inject(write_packet(Opcode::uc_rdma_write_only, kPsn,
                          {.va = rig.va(kAt), .rkey = number(rig.window.rkey), .length = 8},
                          pattern(8)));
  EXPECT_EQ(rig.memory_at(kAt, 8), pattern(8));
  EXPECT_EQ(rig.bind(rig.info()), WcStatus::mw_bind_err);
  EXPECT_EQ(rig.qp().state(), QpState::sqe);
}

TEST(MemoryWindowsOfType2, ErrorFlushesBindsThatHaveNotBegun) {
  WindowRig rig(MemoryKind::window_type_2, {.state = QpState::err});
  roce::SendWr wr{
      .wr_id = 7, .opcode = WrOpcode::bind_mw, .rkey = rig.window.rkey, .mw_bind = rig.info()};
  ASSERT_EQ(rig.post(wr), PostResult::ok);
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(7u, WcStatus::wr_flush_err)));
  EXPECT_EQ(rig.counters().mw_binds.value(), 0u);
}

}  // namespace
}  // namespace rockhopper::test::memory_window_test
