// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Connections: when they open and close, and when data flows.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/sim/seeded_runs.h"
#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test {
namespace {

using roce::WcStatus;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr std::uint64_t kSlackNs = 100'000;

/// DC-8: data leaves right behind the connect, or with it, and is there half a round trip after the
/// request.
TEST(DcConnection, HalfHandshakeDeliversAfterHalfARoundTrip) {
  for (const bool with_data : {false, true}) {
    DcPair pair;
    dc::Dci& dci = pair.make_dci([with_data](auto& init) {
      init.handshake = dc::Handshake::half;
      init.connect_with_data = with_data;
    });
    const dc::Dct& dct = pair.make_dct();
    const std::uint64_t start_ns = pair.now_ns();
    pair.write(dci, dct, 64);
    ASSERT_TRUE(pair.run_until([&] { return pair.word(1, 64) == pair.word(0, 64); }));
    EXPECT_NEAR(static_cast<double>(pair.now_ns() - start_ns), kDelayNs, kSlackNs);
    EXPECT_EQ(pair.sent().rx_accept.value(), 0u) << "before any ACCEPT";
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
    EXPECT_NEAR(static_cast<double>(pair.now_ns() - start_ns), 2 * kDelayNs, kSlackNs);
    EXPECT_EQ(pair.engine(0).counters().sent_pkts.value(), with_data ? 1u : 2u);
    EXPECT_EQ(pair.sent().tx_connect_data.value(), with_data ? 1u : 0u);
  }
}

/// DC-11: with the full handshake it waits for the session.
TEST(DcConnection, FullHandshakeDeliversAfterOneAndAHalf) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci([](auto& init) { init.handshake = dc::Handshake::full; });
  const dc::Dct& dct = pair.make_dct();
  const std::uint64_t start_ns = pair.now_ns();
  pair.write(dci, dct, 64);
  ASSERT_TRUE(pair.run_until([&] { return pair.word(1, 64) == pair.word(0, 64); }));
  EXPECT_NEAR(static_cast<double>(pair.now_ns() - start_ns), 3 * kDelayNs, kSlackNs);
  EXPECT_EQ(pair.sent().rx_accept.value(), 1u);
  EXPECT_EQ(pair.sent().tx_connect_data.value(), 0u);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_NEAR(static_cast<double>(pair.now_ns() - start_ns), 4 * kDelayNs, kSlackNs);
}

/// Initiators of locks rely on what a target that serves them has.
TEST(DcConnection, TargetsThatServeLocksHaveResourcesForAScope) {
  sim::SimNetwork network({.pools = &sim::pools()});
  constexpr std::uint8_t kTooFew = dc::kLockResources - 1;
  for (const bool locks : {false, true}) {
    for (const std::uint8_t resources : {kTooFew, dc::kLockResources}) {
      const auto made = dc::Endpoint::create(
          network.node(0).engine(), {.responder_resources = resources, .lock_execution = locks});
      EXPECT_EQ(made.has_value(), !locks || resources == dc::kLockResources);
    }
  }
}

/// DC-23: requests to the same target use the open connection.
TEST(DcConnection, OneConnectForManyRequests) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  for (unsigned i = 0; i < 100; ++i) {
    pair.write(dci, dct, 8 * i);
    if (i % 10 == 9) {
      EXPECT_THAT(pair.statuses(10), Each(WcStatus::success));
    }
  }
  EXPECT_EQ(pair.sent().tx_connect.value(), 1u);
  EXPECT_EQ(pair.received().sessions_opened.value(), 1u);
}

/// DC-6, DC-7, DC-10, DC-24: each change of target is one connect, and one target at a time. DC-13
/// as far as both targets are behind one interface.
TEST(DcConnection, AlternatingTargetsConnectEachTime) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& a = pair.make_dct();
  const dc::Dct& b = pair.make_dct();
  for (unsigned i = 0; i < 10; ++i) {
    pair.write(dci, i % 2 == 0 ? a : b, 8 * i);
  }
  std::size_t most = 0;
  ASSERT_TRUE(pair.run_until([&] {
    most = std::max(most, pair.endpoint(1).session_count());
    return dci.send_queue_depth() == 0;
  }));
  EXPECT_THAT(pair.statuses(10), Each(WcStatus::success));
  EXPECT_EQ(pair.sent().tx_connect.value(), 10u);
  EXPECT_EQ(pair.sent().tx_disconnect.value(), 9u);
  EXPECT_EQ(pair.received().sessions_opened.value(), 10u);
  EXPECT_EQ(pair.received().rx_disconnect.value(), 9u);
  EXPECT_EQ(pair.received().sessions_superseded.value(), 0u);
  EXPECT_LE(most, 1u);
}

/// DC-17: several initiators and targets at the same time.
TEST(DcConnection, ManyInitiatorsHaveSessionsOfManyTargets) {
  DcPair pair;
  std::vector<dc::Dci*> dcis;
  std::vector<dc::Dct*> dcts;
  for (unsigned i = 0; i < 8; ++i) {
    dcis.push_back(&pair.make_dci());
    dcts.push_back(&pair.make_dct());
  }
  for (unsigned i = 0; i < 8; ++i) {
    pair.write(*dcis[i], *dcts[i / 2], 8 * i);
  }
  EXPECT_THAT(pair.statuses(8), Each(WcStatus::success));
  EXPECT_EQ(pair.endpoint(1).session_count(), 8u);
  EXPECT_EQ(dcts[0]->sessions(), 2u);
}

/// DC-25: streams of one initiator are connections of their own.
TEST(DcConnection, StreamsConnectSideBySide) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci([](auto& init) { init.streams = 4; });
  const dc::Dct& a = pair.make_dct();
  const dc::Dct& b = pair.make_dct();
  for (std::uint8_t stream = 0; stream < 4; ++stream) {
    pair.write(dci, stream % 2 == 0 ? a : b, 8u * stream, stream);
  }
  const std::uint64_t start_ns = pair.now_ns();
  EXPECT_THAT(pair.statuses(4), ::testing::AllOf(SizeIs(4), Each(WcStatus::success)));
  EXPECT_NEAR(static_cast<double>(pair.now_ns() - start_ns), 2 * kDelayNs, kSlackNs);
  EXPECT_EQ(pair.endpoint(1).session_count(), 4u);
}

/// DC-16, DC-30: the initiator closes an idle connection before the target's lease ends.
TEST(DcConnection, IdleConnectionIsClosedByTheInitiator) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci([](auto& init) { init.lease_us = 400'000; });
  const dc::Dct& dct = pair.make_dct();
  pair.write(dci, dct);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  pair.run_for(250'000'000);
  EXPECT_EQ(pair.endpoint(1).session_count(), 1u);
  pair.run_for(100'000'000);
  EXPECT_EQ(pair.endpoint(1).session_count(), 0u);
  EXPECT_EQ(pair.received().sessions_expired.value(), 0u);
  pair.write(dci, dct);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
}

/// DC-15, DC-30: what a vanished initiator leaves goes with the lease.
TEST(DcConnection, SessionOfAVanishedInitiatorExpires) {
  DcPair pair({.lease_us = 500'000});
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  pair.write(dci, dct);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  pair.endpoint(0).destroy_dci(&dci);
  pair.run_for(450'000'000);
  EXPECT_EQ(pair.endpoint(1).session_count(), 1u);
  pair.run_for(100'000'000);
  EXPECT_EQ(pair.endpoint(1).session_count(), 0u);
  EXPECT_EQ(pair.received().sessions_expired.value(), 1u);
  EXPECT_EQ(dct.sessions(), 0u);
}

/// DC-21, DC-30: while a request waits for a receive, the session lives, whatever its lease.
TEST(DcConnection, WaitingForAReceiveKeepsTheSession) {
  DcPair pair({.lease_us = 200'000});
  dc::Dci& dci = pair.make_dci([](auto& init) { init.timeout = 20; });
  const dc::Dct& dct = pair.make_dct([](auto& init) { init.min_rnr_timer = 0; });  // 655 ms
  ASSERT_EQ(pair.post(dci, dct, roce::WrOpcode::send, 100), roce::PostResult::ok);
  pair.run_for(500'000'000);
  EXPECT_EQ(pair.endpoint(1).session_count(), 1u);
  EXPECT_GT(pair.received().rx_keepalive.value(), 0u);
  pair.post_receive();
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_EQ(pair.received().sessions_opened.value(), 1u);
  EXPECT_THAT(pair.recv_completions(), SizeIs(1));
}

/// DC-31: an idle session makes room; DC-27: its initiator connects again when it needs to.
TEST(DcConnection, IdleSessionIsEvictedForAnother) {
  DcPair pair({.sessions = {.contexts = 1}});
  dc::Dci& first = pair.make_dci();
  dc::Dci& second = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  pair.write(first, dct, 0);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  pair.write(second, dct, 8);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_EQ(pair.received().sessions_evicted.value(), 1u);
  pair.write(first, dct, 16);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_EQ(pair.word(1, 16), pair.word(0, 16));
  EXPECT_EQ(pair.sent().lost_sessions.value(), 1u);
}

/// DC-14, DC-33: without a free context the initiator backs off, and gets its turn.
TEST(DcConnection, WaitsForAFreeContext) {
  DcPair pair({.sessions = {.contexts = 1, .hold_ns = UINT64_MAX / 2}, .idle_ns = UINT64_MAX / 2});
  dc::Dci& first = pair.make_dci([](auto& init) { init.lease_us = 400'000; });
  dc::Dci& second = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  pair.write(first, dct, 0);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  const std::uint64_t start_ns = pair.now_ns();
  pair.write(second, dct, 8);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_GT(pair.now_ns() - start_ns, 250'000'000u);
  EXPECT_GT(pair.received().tx_cnak_no_context.value(), 0u);
  EXPECT_LT(pair.sent().tx_connect.value(), 40u) << "no busy storm";
}

/// DC-31: a host has no more sessions than its quota.
TEST(DcConnection, QuotaOfAHost) {
  DcPair pair({.sessions = {.per_host = 2}});
  const dc::Dct& dct = pair.make_dct();
  for (unsigned i = 0; i < 3; ++i) {
    pair.write(pair.make_dci([](auto& init) { init.lease_us = 300'000; }), dct, 8 * i);
  }
  EXPECT_THAT(pair.statuses(3), Each(WcStatus::success));
  EXPECT_GT(pair.sent().rx_cnak_quota.value(), 0u);
}

/// DC-29, DC-36: data without its connect is not executed, the connection begins again; after two
/// of these within a second handshakes are full.
TEST(DcConnection, LostConnectsLeadToFullHandshakes) {
  // Of each connection the first connect: behind it come a WRITE, then the connect once more with
  // the WRITE, and what closes the connection.
  DcPair pair({}, {.dropped_packets = {{0, 0}, {0, 5}}});
  dc::Dci& dci = pair.make_dci([](auto& init) { init.connect_with_data = false; });
  const dc::Dct& a = pair.make_dct();
  const dc::Dct& b = pair.make_dct();
  for (unsigned i = 0; i < 2; ++i) {
    pair.write(dci, i == 0 ? a : b, 8 * i);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
    EXPECT_EQ(pair.sent().restarts.value(), i + 1u);
    EXPECT_EQ(pair.received().stale_requests.value(), i + 1u);
    EXPECT_EQ(pair.word(1, 8 * i), pair.word(0, 8 * i));
  }
  EXPECT_EQ(pair.received().sessions_opened.value(), 2u);
  const std::uint64_t start_ns = pair.now_ns();
  pair.write(dci, a, 64);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_NEAR(static_cast<double>(pair.now_ns() - start_ns), 4 * kDelayNs, kSlackNs);
}

}  // namespace
}  // namespace rockhopper::test
