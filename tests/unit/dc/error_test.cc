// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What is refused, by whom, and what becomes of the requests.
#include <gtest/gtest.h>

#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test::error_test {
namespace {

using roce::PostResult;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;

std::uint64_t drops(DcPair& pair, unsigned node, roce::DropReason reason) {
  return pair.engine(node).counters().drops[static_cast<std::size_t>(reason)].value();
}

/// DC-20: without the access key there is no context and no answer.
TEST(DcError, WrongAccessKeyIsNotAnswered) {
  for (const bool with_data : {false, true}) {
    DcPair pair;
    dc::Dci& dci = pair.make_dci([with_data](auto& init) {
      init.retry_cnt = 2;
      init.connect_with_data = with_data;
    });
    const dc::Dct& dct = pair.make_dct();
    const auto sent_before = pair.engine(1).counters().sent_pkts.value();
    ASSERT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, 0,
                        [&](auto& wr) { wr.dc_access_key = dct.access_key() ^ 1; }),
              PostResult::ok);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::retry_exc_err));
    EXPECT_EQ(pair.received().sessions_opened.value(), 0u);
    EXPECT_GT(dct.violations(), 0u);
    EXPECT_EQ(pair.received().access_key_violations.value(), dct.violations());
    EXPECT_EQ(drops(pair, 1, roce::DropReason::dc_access_key), dct.violations());
    EXPECT_NE(pair.word(1, 0), pair.word(0, 0));
    // Only what belongs to no context is told: the data that followed.
    EXPECT_EQ(pair.engine(1).counters().sent_pkts.value() - sent_before,
              pair.received().tx_cnak_stale_session.value());
    EXPECT_EQ(pair.received().tx_cnak_stale_session.value() == 0, with_data);
  }
}

/// DC-25: an error is its stream's; what is behind it is flushed, and reset() revives it.
TEST(DcError, ErrorOfOneStreamLeavesTheOthers) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci([](auto& init) { init.streams = 2; });
  const dc::Dct& dct = pair.make_dct();
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, 0,
                      [&](auto& wr) { wr.rkey = roce::MemoryKey{0x12345600}; }),
            PostResult::ok);
  pair.write(dci, dct, 8, 0);
  pair.write(dci, dct, 16, 1);
  ASSERT_TRUE(pair.run_until([&] { return dci.state(0) == roce::QpState::err; }));
  pair.run_for(2 * kDelayNs);
  std::vector<std::pair<std::uint64_t, WcStatus>> seen;
  for (const roce::Completion& completion : pair.send_completions()) {
    seen.emplace_back(completion.wr_id, completion.status);
  }
  EXPECT_THAT(seen,
              testing::UnorderedElementsAre(std::pair(std::uint64_t{0}, WcStatus::rem_access_err),
                                            std::pair(std::uint64_t{8}, WcStatus::wr_flush_err),
                                            std::pair(std::uint64_t{16}, WcStatus::success)));
  EXPECT_EQ(dci.state(1), roce::QpState::rts);
  ASSERT_TRUE(dci.reset(0));
  pair.write(dci, dct, 24, 0);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
}

/// DC-25: with max_errored of them all streams are in error, and are reset together.
TEST(DcError, SoManyStreamsInErrorThatAllAre) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci([](auto& init) {
    init.streams = 4;
    init.max_errored = 2;
  });
  const dc::Dct& dct = pair.make_dct();
  const auto miss = [&](std::uint8_t stream) {
    ASSERT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, stream,
                        [](auto& wr) { wr.rkey = roce::MemoryKey{0x12345600}; }),
              PostResult::ok);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::rem_access_err));
  };
  miss(0);
  EXPECT_FALSE(dci.failed());
  ASSERT_TRUE(dci.reset(0));
  miss(1);
  EXPECT_FALSE(dci.failed()) << "one at a time";
  pair.write(dci, dct, 24, 3);
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, 0,
                      [](auto& wr) { wr.rkey = roce::MemoryKey{0x12345600}; }),
            PostResult::ok);
  pair.write(dci, dct, 32, 0);
  EXPECT_TRUE(pair.run_until([&] { return dci.failed(); }));
  for (std::uint8_t stream = 0; stream < 4; ++stream) {
    EXPECT_EQ(dci.state(stream), roce::QpState::err);
    EXPECT_EQ(dci.send_queue_depth(stream), 0u);
    EXPECT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, stream), PostResult::ok);
  }
  EXPECT_FALSE(dci.reset(0));
  dci.reset_all();
  (void)pair.send_completions();
  for (std::uint8_t stream = 0; stream < 4; ++stream) {
    pair.write(dci, dct, 40u + 8u * stream, stream);
  }
  EXPECT_THAT(pair.statuses(4), testing::Each(WcStatus::success));
}

TEST(DcError, OnlyAStreamInErrorIsReset) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  EXPECT_FALSE(dci.reset(0));
  EXPECT_FALSE(dci.reset(1));
}

/// The context of a session that ended in an error goes back to the pool at once.
TEST(DcError, RefusedRequestFreesTheContext) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, 0,
                      [&](auto& wr) { wr.rkey = roce::MemoryKey{0x12345600}; }),
            PostResult::ok);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::rem_access_err));
  pair.run_for(2 * kDelayNs);
  EXPECT_EQ(pair.endpoint(1).session_count(), 0u);
  EXPECT_EQ(dct.sessions(), 0u);
}

/// DC-34: a draining target takes nobody new, who is connected goes on.
TEST(DcError, DrainingTarget) {
  DcPair pair;
  dc::Dci& first = pair.make_dci();
  dc::Dci& second = pair.make_dci();
  dc::Dct& dct = pair.make_dct();
  pair.write(first, dct, 0);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  dct.drain();
  pair.write(second, dct, 8);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::rem_abort_err));
  EXPECT_EQ(pair.sent().rx_cnak_draining.value(), 1u);
  pair.write(first, dct, 16);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
}

/// DC-34: what a target that is gone still gets ends with a definite error.
TEST(DcError, DestroyedTarget) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  dc::Dct& dct = pair.make_dct();
  pair.write(dci, dct, 0);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  pair.write(dci, dct, 8);
  pair.endpoint(1).destroy_dct(&dct);
  EXPECT_EQ(pair.endpoint(1).session_count(), 0u);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::rem_abort_err));
}

TEST(DcError, PathMtuThatTheTargetDoesNotHave) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci([](auto& init) { init.path_mtu = roce::PathMtu::mtu_4096; });
  const dc::Dct& dct = pair.make_dct();
  pair.write(dci, dct);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::rem_inv_req_err));
  EXPECT_EQ(pair.sent().rx_cnak_incompatible.value(), 1u);
}

TEST(DcError, NobodyThere) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci([](auto& init) { init.retry_cnt = 2; });
  const dc::Dct& dct = pair.make_dct();
  pair.network().cut(true);
  pair.write(dci, dct);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::retry_exc_err));
}

/// A bounded number of CNAKs, then the request fails (DC-33).
TEST(DcError, ContextThatNeverGetsFree) {
  DcPair pair({.sessions = {.contexts = 1, .hold_ns = UINT64_MAX / 2}, .idle_ns = UINT64_MAX / 2});
  dc::Dci& first = pair.make_dci([](auto& init) { init.lease_us = UINT32_MAX; });
  dc::Dci& second = pair.make_dci([](auto& init) { init.connect_tries = 3; });
  const dc::Dct& dct = pair.make_dct();
  pair.write(first, dct, 0);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  pair.write(second, dct, 8);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::rnr_retry_exc_err));
  EXPECT_EQ(pair.sent().rx_cnak_no_context.value(), 4u);
}

TEST(DcError, AddressHandleThatIsGone) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& a = pair.make_dct();
  const dc::Dct& b = pair.make_dct();
  pair.write(dci, a, 0);
  pair.write(dci, b, 8);
  pair.engine(0).destroy_ah(pair.ah());
  EXPECT_THAT(pair.statuses(2), ElementsAre(WcStatus::success, WcStatus::loc_qp_op_err));
}

TEST(DcError, RequestsThatAreRefusedWhenPosted) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  const auto posted = [&](const auto& change) {
    return pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, 0, change);
  };
  EXPECT_EQ(posted([](auto& wr) { wr.ah = nullptr; }), PostResult::invalid_request);
  EXPECT_EQ(posted([](auto& wr) { wr.remote_qpn = wire::Qpn{0x123}; }),
            PostResult::invalid_request);
  EXPECT_EQ(posted([](auto& wr) { wr.opcode = WrOpcode::local_inv; }), PostResult::invalid_request);
  EXPECT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, 1), PostResult::invalid_request);
}

TEST(DcError, WhatCannotBeMade) {
  DcPair pair;
  const auto dci_with = [&](const auto& change) {
    dc::DciInit init = pair.dci_init();
    change(init);
    return pair.endpoint(0).create_dci(init).has_value();
  };
  EXPECT_TRUE(dci_with([](auto&) {}));
  EXPECT_FALSE(dci_with([](auto& init) { init.streams = 0; }));
  EXPECT_FALSE(dci_with([](auto& init) { init.streams = 129; }));
  EXPECT_FALSE(dci_with([](auto& init) { init.send_cq = nullptr; }));
  EXPECT_FALSE(dci_with([](auto& init) { init.max_send_wr = 0; }));
  EXPECT_FALSE(dci_with([](auto& init) { init.timeout = 32; }));
  EXPECT_FALSE(dci_with([](auto& init) { init.pd = {999}; }));
  EXPECT_FALSE(dci_with([](auto& init) { init.pkey_index = 2; })) << "names no partition";
  const auto dct_with = [&](const auto& change) {
    dc::DctInit init = pair.dct_init();
    change(init);
    return pair.endpoint(1).create_dct(init).has_value();
  };
  EXPECT_TRUE(dct_with([](auto&) {}));
  EXPECT_FALSE(dct_with([](auto& init) { init.srq = nullptr; }));
  EXPECT_FALSE(dct_with([](auto& init) { init.recv_cq = nullptr; }));
  EXPECT_FALSE(dct_with([](auto& init) { init.access_flags = 1u << 30; }));
  EXPECT_FALSE(dct_with([](auto& init) { init.pkey_index = 1; })) << "an empty entry";
  EXPECT_FALSE(pair.engine(0).create_qp({.qp_type = roce::QpType::extension_initiator,
                                         .pd = pair.dci_init().pd,
                                         .send_cq = pair.dci_init().send_cq,
                                         .recv_cq = pair.dci_init().send_cq}));
}

/// As with queue pairs, a target alone needs it, whoever is connected.
TEST(DcError, ProtectionDomainOfATargetIsBusy) {
  DcPair pair;
  const roce::ProtectionDomain pd = pair.engine(1).allocate_pd();
  dc::Dct& first = pair.make_dct([pd](auto& init) { init.pd = pd; });
  dc::Dct& second = pair.make_dct([pd](auto& init) { init.pd = pd; });
  EXPECT_FALSE(pair.engine(1).deallocate_pd(pd));
  pair.endpoint(1).destroy_dct(&first);
  EXPECT_FALSE(pair.engine(1).deallocate_pd(pd));
  pair.endpoint(1).destroy_dct(&second);
  EXPECT_TRUE(pair.engine(1).deallocate_pd(pd));
}

/// A target serves its partition and no other, though the port is in both. In the second one node 1
/// is a limited member.
TEST(DcError, Partitions) {
  for (const bool second : {false, true}) {
    DcPair pair;
    dc::Dci& inside = pair.make_dci([&](auto& init) { init.pkey_index = second ? 1 : 0; });
    dc::Dci& outside = pair.make_dci([&](auto& init) {
      init.pkey_index = second ? 0 : 1;
      init.handshake = dc::Handshake::full;
      init.retry_cnt = 1;
    });
    dc::Dct& dct = pair.make_dct([&](auto& init) { init.pkey_index = second ? 2 : 0; });
    pair.write(inside, dct, 0);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
    pair.post_receive();
    ASSERT_EQ(pair.post(inside, dct, WrOpcode::send, 8, 16), PostResult::ok);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
    pair.write(outside, dct, 8);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::retry_exc_err));
    EXPECT_EQ(drops(pair, 1, roce::DropReason::bad_pkey), 2u) << "the connect and its repetition";
    EXPECT_EQ(pair.received().sessions_opened.value(), 1u);
    EXPECT_EQ(dct.violations(), 0u);
    EXPECT_NE(pair.word(1, 8), pair.word(0, 8));
  }
}

/// What refuses is of the packet's partition, and a limited member's answers reach a full one.
TEST(DcError, RefusalInASecondPartition) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci([](auto& init) { init.pkey_index = 1; });
  dc::Dct& dct = pair.make_dct([](auto& init) { init.pkey_index = 2; });
  dct.drain();
  pair.write(dci, dct);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::rem_abort_err));
  EXPECT_EQ(pair.sent().rx_cnak_draining.value(), 1u);
}

/// Sessions that are over hold nothing of their target's.
TEST(DcError, ProtectionDomainIsFreeWhenItsTargetIsGone) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const roce::ProtectionDomain pd = pair.engine(1).allocate_pd();
  dc::Dct& dct = pair.make_dct([pd](auto& init) { init.pd = pd; });
  pair.post_receive();
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::send, 8), PostResult::ok);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_FALSE(pair.engine(1).deallocate_pd(pd)) << "a session uses it";
  pair.endpoint(1).destroy_dct(&dct);
  EXPECT_TRUE(pair.engine(1).deallocate_pd(pd));
}

/// Numbers lie in the window that standard queue pairs never use (WIRE, decision 2).
TEST(DcError, NumbersAreOfTheirWindow) {
  DcPair pair;
  for (unsigned i = 0; i < 200; ++i) {
    const wire::Qpn number = pair.make_dct().number();
    EXPECT_GE(number.value, 0xD00000u);
    EXPECT_LE(number.value, 0xDFFFFFu);
  }
}

}  // namespace
}  // namespace rockhopper::test::error_test
