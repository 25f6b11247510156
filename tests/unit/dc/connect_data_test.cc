// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Connects that carry the first request of their connection (0xDE; docs/dc.md, opening).
#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "roce/packet_builder.h"
#include "tests/sim/seeded_runs.h"
#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test::connect_data_test {
namespace {

using roce::DropReason;
using roce::PostResult;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using wire::Opcode;

constexpr std::uint64_t kLongNs = 10'000'000'000;
constexpr std::uint32_t kMtu = 1024;
/// The 48 bytes of a CONNECT in place of the 12 of a session header.
constexpr std::uint32_t kLongest = kMtu - 36;

std::uint64_t drops(DcPair& pair, DropReason reason) {
  return pair.engine(1).counters().drops[static_cast<std::size_t>(reason)].value();
}

bool arrived(DcPair& pair, std::uint32_t length, std::size_t offset = 0) {
  return std::equal(pair.memory(0) + offset, pair.memory(0) + offset + length,
                    pair.memory(1) + offset);
}

TEST(DcConnectData, EveryKindOfSmallRequest) {
  for (const WrOpcode opcode : {WrOpcode::send, WrOpcode::send_with_imm, WrOpcode::rdma_write,
                                WrOpcode::rdma_write_with_imm}) {
    SCOPED_TRACE(static_cast<int>(opcode));
    DcPair pair;
    dc::Dci& dci = pair.make_dci();
    const dc::Dct& dct = pair.make_dct();
    pair.post_receive(1024, 0);
    ASSERT_EQ(pair.post(dci, dct, opcode, 100, 0, 0, [](auto& wr) { wr.imm_data = 0x1234; }),
              PostResult::ok);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
    EXPECT_TRUE(arrived(pair, 100));
    const auto received = pair.recv_completions();
    ASSERT_THAT(received, SizeIs(opcode == WrOpcode::rdma_write ? 0 : 1));
    if (opcode == WrOpcode::send_with_imm || opcode == WrOpcode::rdma_write_with_imm) {
      EXPECT_EQ(received[0].imm_data, 0x1234u);
    }
    EXPECT_EQ(pair.engine(0).counters().sent_pkts.value(), 1u);
    EXPECT_EQ(pair.received().rx_connect_data.value(), 1u);
    EXPECT_EQ(pair.sent().tx_connect.value(), 1u);
  }
}

TEST(DcConnectData, SendWithInvalidate) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  std::array<std::byte, 64> memory{};
  const roce::MemoryKey key =
      sim::must(pair.engine(1).register_memory(pair.dct_init().pd, memory.data(), memory.size(),
                                               roce::kAccessAll | roce::kAccessRemoteInvalidate))
          .key;
  pair.post_receive();
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::send_with_inv, 8, 0, 0,
                      [key](auto& wr) { wr.invalidate_rkey = key; }),
            PostResult::ok);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_EQ(pair.sent().tx_connect_data.value(), 1u);
  EXPECT_EQ(pair.engine(1).counters().remote_invalidations.value(), 1u);
}

/// The packet is never longer than others of that path MTU.
TEST(DcConnectData, UpToThePathMtu) {
  for (const std::uint32_t length : {0u, 1u, kLongest, kLongest + 1, kMtu, kMtu + 1}) {
    SCOPED_TRACE(length);
    DcPair pair;
    dc::Dci& dci = pair.make_dci();
    const dc::Dct& dct = pair.make_dct();
    ASSERT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, length), PostResult::ok);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
    EXPECT_TRUE(arrived(pair, length));
    EXPECT_EQ(pair.sent().tx_connect_data.value(), length <= kLongest ? 1u : 0u);
    EXPECT_EQ(pair.sent().tx_connect.value(), 1u);
  }
}

TEST(DcConnectData, OnlySendsAndWrites) {
  for (const WrOpcode opcode : {WrOpcode::rdma_read, WrOpcode::atomic_fetch_and_add,
                                WrOpcode::atomic_write, WrOpcode::flush}) {
    SCOPED_TRACE(static_cast<int>(opcode));
    DcPair pair;
    dc::Dci& dci = pair.make_dci();
    const dc::Dct& dct = pair.make_dct();
    const bool flush = opcode == WrOpcode::flush;
    ASSERT_EQ(pair.post(dci, dct, opcode, flush ? 0 : 8, 0, 0,
                        [flush](auto& wr) {
                          wr.sg_list = flush ? std::span<const roce::Sge>{} : wr.sg_list;
                          wr.flush = {.length = 8, .placement_type = 1, .selectivity_level = 0};
                        }),
              PostResult::ok);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
    EXPECT_EQ(pair.sent().tx_connect_data.value(), 0u);
  }
}

/// DC-8: what else there is follows at once.
TEST(DcConnectData, OthersFollow) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  const std::uint64_t start_ns = pair.now_ns();
  for (unsigned i = 0; i < 3; ++i) {
    pair.write(dci, dct, 8 * i);
  }
  ASSERT_TRUE(pair.run_until([&] { return arrived(pair, 24); }));
  EXPECT_NEAR(static_cast<double>(pair.now_ns() - start_ns), kDelayNs, 100'000);
  EXPECT_THAT(pair.statuses(3), Each(WcStatus::success));
  EXPECT_EQ(pair.engine(0).counters().sent_pkts.value(), 3u);
  EXPECT_EQ(pair.sent().restarts.value(), 0u);
}

/// DC-6: a change of target costs a packet with a request and the disconnect.
TEST(DcConnectData, EachChangeOfTarget) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& a = pair.make_dct();
  const dc::Dct& b = pair.make_dct();
  for (unsigned i = 0; i < 10; ++i) {
    pair.write(dci, i % 2 == 0 ? a : b, 8 * i);
  }
  EXPECT_THAT(pair.statuses(10), Each(WcStatus::success));
  EXPECT_TRUE(arrived(pair, 80));
  EXPECT_EQ(pair.sent().tx_connect_data.value(), 10u);
  EXPECT_EQ(pair.engine(0).counters().sent_pkts.value(), 10u + 9u);
}

/// DC-29: connect and data are lost together, and sent again together.
TEST(DcConnectData, Lost) {
  DcPair pair({}, {.dropped_packets = {{0, 0}, {0, 1}}});
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  pair.post_receive();
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::send, 100), PostResult::ok);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_THAT(pair.recv_completions(), SizeIs(1));
  EXPECT_EQ(pair.sent().tx_connect_data.value(), 3u);
  EXPECT_EQ(pair.engine(0).counters().sent_pkts.value(), 3u);
  EXPECT_EQ(pair.received().stale_requests.value(), 0u);
  EXPECT_EQ(pair.sent().restarts.value(), 0u);
}

/// DC-27, DC-28: nobody hears that it has arrived, and it arrives again.
TEST(DcConnectData, AnswersLost) {
  DcPair pair({}, {.dropped_packets = {{1, 0}, {1, 1}}});
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  pair.post_receive();
  pair.post_receive();
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::send, 100), PostResult::ok);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_THAT(pair.recv_completions(), SizeIs(1));
  EXPECT_EQ(pair.received().rx_connect_data.value(), 2u);
  EXPECT_EQ(pair.received().sessions_opened.value(), 1u);
  EXPECT_EQ(pair.engine(1).counters().duplicate_request.value(), 1u);
}

/// DC-29: however long the ACK timeout, a connect is repeated while the target is sure to remember
/// it, so that nothing is unknown.
TEST(DcConnectData, RepeatedInTime) {
  for (const std::uint8_t timeout : {std::uint8_t{0}, std::uint8_t{19}}) {  // none, 2.1 s
    for (const std::uint8_t lost_by : {std::uint8_t{0}, std::uint8_t{1}}) {
      SCOPED_TRACE(testing::Message() << int{timeout} << ", " << int{lost_by});
      DcPair pair({}, {.dropped_packets = {{lost_by, 0}, {lost_by, 1}}});
      dc::Dci& dci = pair.make_dci([&](dc::DciInit& init) { init.timeout = timeout; });
      const dc::Dct& dct = pair.make_dct();
      pair.post_receive();
      ASSERT_EQ(pair.post(dci, dct, WrOpcode::send, 100), PostResult::ok);
      pair.run_for(500'000'000);
      EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
      EXPECT_THAT(pair.recv_completions(), SizeIs(1));
      EXPECT_EQ(pair.sent().restarts.value(), 0u);
    }
  }
}

/// DC-27: a target that nobody could reach for long may have forgotten that it has executed what
/// came with the connect.
TEST(DcConnectData, NotRepeatedToATargetThatHasForgotten) {
  for (const bool with_data : {true, false}) {
    SCOPED_TRACE(with_data);
    DcPair pair({}, {.dropped_packets = first_packets(1, 100)});  // so many that none arrives
    dc::Dci& dci = pair.make_dci([&](dc::DciInit& init) {
      init.timeout = 19;  // 2.1 s
      init.connect_with_data = with_data;
    });
    const dc::Dct& dct = pair.make_dct();
    pair.post_receive();
    pair.post_receive();
    ASSERT_EQ(pair.post(dci, dct, WrOpcode::send, 100), PostResult::ok);
    EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::outcome_unknown));
    EXPECT_GE(pair.now_ns(), 500'000'000u);
    pair.run_for(kLongNs);
    EXPECT_THAT(pair.recv_completions(), SizeIs(1));
  }
}

TEST(DcConnectData, LostWithARequestBehindIt) {
  DcPair pair({}, {.dropped_packets = {{0, 0}}});
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  pair.post_receive();
  pair.post_receive();
  for (unsigned i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.post(dci, dct, WrOpcode::send, 100), PostResult::ok);
  }
  EXPECT_THAT(pair.statuses(2), Each(WcStatus::success));
  EXPECT_THAT(pair.recv_completions(), SizeIs(2));
  EXPECT_EQ(pair.sent().restarts.value(), 1u);
  EXPECT_EQ(pair.sent().tx_connect.value(), 2u);
  EXPECT_EQ(pair.sent().tx_connect_data.value(), 1u);
}

/// DC-14, DC-33: who is refused does not get his data executed either, and brings it again.
TEST(DcConnectData, RefusedWithBackOff) {
  DcPair pair({.sessions = {.contexts = 1, .hold_ns = kLongNs}, .idle_ns = kLongNs});
  dc::Dci& first = pair.make_dci([](auto& init) { init.lease_us = 400'000; });
  dc::Dci& second = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  pair.write(first, dct, 0);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  pair.post_receive();
  pair.post_receive();
  ASSERT_EQ(pair.post(second, dct, WrOpcode::send, 100), PostResult::ok);
  ASSERT_TRUE(pair.run_until([&] { return pair.sent().rx_cnak_no_context.value() == 2; }));
  EXPECT_THAT(pair.recv_completions(), SizeIs(0));
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
  EXPECT_THAT(pair.recv_completions(), SizeIs(1));
  EXPECT_EQ(pair.sent().tx_connect_data.value(), pair.sent().tx_connect.value());
  EXPECT_EQ(pair.sent().restarts.value(), 0u);
}

/// A request that fails before it is sent needs no connection.
TEST(DcConnectData, LocalErrorOfTheFirstRequest) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct();
  const roce::Sge sge{.addr = pair.va(0, 0), .length = 8, .lkey = roce::MemoryKey{0x12345600}};
  const auto from_it = [&sge](auto& wr) { wr.sg_list = {&sge, 1}; };
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8, 0, 0, from_it), PostResult::ok);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::loc_prot_err));
  EXPECT_EQ(pair.sent().tx_connect.value(), 0u);
  ASSERT_TRUE(dci.reset());
  pair.write(dci, dct, 8);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::success));
}

/// Packets of an initiator that node 0 does not have, made by hand.
class DcConnectDataPacket : public ::testing::Test {
 protected:
  DcConnectDataPacket() {
    pair_.post_receive();
    pair_.post_receive();
  }

  void inject(Opcode operation = Opcode::dc_send_only, std::size_t length = 8) {
    headers_.dcch.bytes = {};
    (void)dc::emit_message(connect_, headers_.dcch.bytes);
    headers_.dcch.set_operation(static_cast<std::uint8_t>(operation));
    inject_bytes(length);
  }
  /// With what is in the DCCH.
  void inject_bytes(std::size_t length = 8) {
    stack::Host& host = pair_.network().node(0).host();
    stack::Flow flow;
    flow.config = roce::flow_config({.source = pair_.network().node(0).address(),
                                     .destination = pair_.network().node(1).address()},
                                    1);
    ASSERT_EQ(host.resolve(flow, pair_.now_ns()), stack::Resolution::ready);
    headers_.bth.opcode = static_cast<std::uint8_t>(Opcode::dc_connect_data);
    headers_.bth.destination = dct_.number();
    headers_.bth.psn = psn_;
    headers_.bth.ack_request = true;
    headers_.reth = {.va = pair_.va(1, 0),
                     .rkey = static_cast<std::uint32_t>(pair_.key(1)),
                     .length = static_cast<std::uint32_t>(length)};
    headers_.imm_dt = {};
    headers_.ieth = {};
    roce::PacketBuilder builder(sim::pools().node(0), host, flow, headers_,
                                static_cast<std::uint32_t>(length));
    ASSERT_TRUE(builder.ok());
    ASSERT_TRUE(builder.append(reinterpret_cast<const std::byte*>(pair_.memory(0)),
                               static_cast<std::uint32_t>(length)));
    rte_mbuf* packet = builder.finish();
    pair_.network().node(1).host().receive(&packet, 1, pair_.now_ns());
    pair_.run_for(kDelayNs);
  }
  [[nodiscard]] std::size_t executed() { return pair_.recv_completions().size(); }
  [[nodiscard]] std::uint64_t answers() { return pair_.engine(1).counters().sent_pkts.value(); }
  [[nodiscard]] std::uint64_t drops(DropReason reason) {
    return connect_data_test::drops(pair_, reason);
  }

  DcPair pair_{{.lease_us = 200'000}};
  dc::Dct& dct_ = pair_.make_dct();
  dc::Connect connect_{.full = false,
                       .data_follows = true,
                       .mtu_code = 3,
                       .initiator = wire::Qpn{0xd12345},
                       .first_psn = wire::Psn{0xffffff},
                       .nonce = 0x01020304,
                       .lease_us = 1'000'000,
                       .access_key = dct_.access_key(),
                       .incarnation = 0x99aabbccddeeff00,
                       .stream = 3,
                       .responder_resources = 4};
  wire::Psn psn_{0xffffff};
  wire::Headers headers_;
};

TEST_F(DcConnectDataPacket, IsTaken) {
  inject();
  EXPECT_EQ(executed(), 1u);
  EXPECT_EQ(pair_.endpoint(1).session_count(), 1u);
  EXPECT_EQ(answers(), 2u) << "ACCEPT and ACK";
}

/// DC-28: the session is the same, and the request has been executed.
TEST_F(DcConnectDataPacket, DuplicateIsAnsweredAndNotExecuted) {
  inject();
  inject();
  EXPECT_EQ(executed(), 1u);
  EXPECT_EQ(pair_.received().sessions_opened.value(), 1u);
  EXPECT_EQ(answers(), 4u);
}

/// DC-26, DC-28: late, when the initiator has long connected anew.
TEST_F(DcConnectDataPacket, LateOneOfAnEarlierConnectionIsNotExecuted) {
  ++connect_.nonce;
  inject();
  EXPECT_EQ(executed(), 1u);
  --connect_.nonce;
  inject();
  EXPECT_EQ(executed(), 0u);
  EXPECT_EQ(pair_.received().ghost_connects.value(), 1u);
  EXPECT_EQ(pair_.received().sessions_opened.value(), 1u);
}

/// DC-26, DC-27: its session has been and gone; the initiator is told what was executed.
TEST_F(DcConnectDataPacket, LateOneOfASessionThatIsOverIsNotExecuted) {
  inject();
  EXPECT_EQ(executed(), 1u);
  pair_.run_for(250'000'000);
  ASSERT_EQ(pair_.endpoint(1).session_count(), 0u);
  inject();
  EXPECT_EQ(executed(), 0u);
  EXPECT_EQ(pair_.received().sessions_opened.value(), 1u);
  EXPECT_EQ(pair_.received().tx_cnak_stale_session.value(), 1u);
}

/// DC-20: no answer to any of it.
TEST_F(DcConnectDataPacket, WithoutTheAccessKeyIsNotAnswered) {
  connect_.access_key ^= 1;
  inject();
  EXPECT_EQ(executed(), 0u);
  EXPECT_EQ(answers(), 0u);
  EXPECT_EQ(dct_.violations(), 1u);
  EXPECT_EQ(drops(DropReason::dc_access_key), 1u);
}

/// DC-34: refused as any connect, and its data with it.
TEST_F(DcConnectDataPacket, RefusedByADrainingTarget) {
  dct_.drain();
  inject();
  EXPECT_EQ(executed(), 0u);
  EXPECT_EQ(pair_.received().tx_cnak_draining.value(), 1u);
  EXPECT_EQ(answers(), 1u);
}

/// A path MTU that the target does not have.
TEST_F(DcConnectDataPacket, RefusedAsIncompatible) {
  connect_.mtu_code = 5;
  inject();
  EXPECT_EQ(executed(), 0u);
  EXPECT_EQ(pair_.received().tx_cnak_incompatible.value(), 1u);
}

/// WIRE-5: each is dropped and counted, without an answer or any state.
TEST_F(DcConnectDataPacket, MalformedOnes) {
  std::uint64_t bad_control = 0;
  const auto refused = [&](const char* what) {
    SCOPED_TRACE(what);
    EXPECT_EQ(drops(DropReason::dc_bad_control), ++bad_control);
  };
  const dc::Connect good = connect_;
  connect_.full = true;
  inject();
  refused("that wants to wait for the ACCEPT");
  connect_ = good;
  psn_ = wire::Psn{0};
  inject();
  refused("a request with another PSN than the first");
  psn_ = good.first_psn;
  inject(Opcode::dc_rdma_write_only, kLongest + 1);
  refused("longer than the path MTU allows");
  connect_.mtu_code = 6;
  inject();
  refused("no path MTU");
  connect_.mtu_code = 3;
  connect_.stream = 128;
  inject();
  refused("no stream");
  connect_ = good;
  for (const std::size_t byte : {0u, 4u, 5u}) {  // magic number, version, subtype
    (void)dc::emit_message(connect_, headers_.dcch.bytes);
    headers_.dcch.set_operation(static_cast<std::uint8_t>(Opcode::dc_send_only));
    headers_.dcch.bytes[byte] ^= 2;
    inject_bytes();
    refused("another message, or none");
  }
  EXPECT_EQ(pair_.engine(1).counters().rcvd_pkts.value(), bad_control);
  EXPECT_EQ(executed(), 0u);
  EXPECT_EQ(answers(), 0u);
  EXPECT_EQ(pair_.endpoint(1).session_count(), 0u);
  EXPECT_EQ(pair_.received().rx_connect.value(), 0u);
  inject(Opcode::dc_rdma_write_only, kLongest);
  EXPECT_TRUE(arrived(pair_, kLongest));
}

/// Wrong in what a session is to judge: answered as any request of one.
TEST(DcConnectData, RequestThatTheSessionRefuses) {
  DcPair pair;
  dc::Dci& dci = pair.make_dci();
  const dc::Dct& dct = pair.make_dct([](auto& init) { init.access_flags = 0; });
  ASSERT_EQ(pair.post(dci, dct, WrOpcode::rdma_write, 8), PostResult::ok);
  EXPECT_THAT(pair.statuses(1), ElementsAre(WcStatus::rem_inv_req_err));
  EXPECT_EQ(pair.sent().tx_connect_data.value(), 1u);
  EXPECT_NE(pair.word(1, 0), pair.word(0, 0));
}

}  // namespace
}  // namespace rockhopper::test::connect_data_test
