// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Datagrams as they leave; address handles.
#include <algorithm>
#include <set>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::ud_requester_test {
namespace {

using roce::PostResult;
using roce::QpState;
using roce::QpType;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x001000;
constexpr std::uint32_t kLongest = 4096;  ///< the largest path MTU that the rig's link has room for
const stack::IpAddress kUnreachable = stack::IpAddress::from_ipv4(0xc0000201);
const stack::IpAddress kUnknown = stack::IpAddress::from_ipv4(0x0a000063);  ///< never answers

ConnectionOptions ud() { return {.qp_type = QpType::ud}; }

roce::SendWr to(roce::AddressHandle* ah, std::uint64_t wr_id) {
  return {.wr_id = wr_id, .ah = ah, .remote_qpn = wire::Qpn{Rig::kPeerQpn}};
}

TEST(UdRequester, Clause9_8_3_DatagramIsOnePacket) {
  for (const std::uint32_t length : {0u, 1u, 255u, 1024u, kLongest}) {
    Rig rig(ud());
    rig.post_send(1, WrOpcode::send, length, 100);
    rig.post_send(2, WrOpcode::send_with_imm, 8, 0, roce::kSendSolicited);
    const auto sent = rig.sent();
    ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::ud_send_only, kPsn),
                                  IsPacket(Opcode::ud_send_only_with_immediate, kPsn + 1)));
    EXPECT_EQ(sent[0].payload, rig.memory_at(100, length));
    EXPECT_EQ(sent[0].headers.deth,
              (wire::Deth{.qkey = 0x22222222, .reserved8 = 0, .source = rig.qp().number()}));
    EXPECT_FALSE(sent[0].headers.bth.solicited);
    EXPECT_FALSE(sent[0].headers.bth.ack_request);
    EXPECT_EQ(sent[0].headers.bth.pkey, 0xffff);
    EXPECT_EQ(sent[1].headers.imm_dt.data, 0x01020304u);
    EXPECT_TRUE(sent[1].headers.bth.solicited);
    EXPECT_THAT(rig.send_completions(),
                ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
    EXPECT_EQ(rig.qp().query().sq_psn.value, kPsn + 2);
  }
}

TEST(UdRequester, Clause10_2_QkeyWithTheHighBitMeansTheQueuePairsOwn) {
  Rig rig({.qp_type = QpType::ud, .qkey = 0x00abcdef});
  roce::SendWr wr = to(rig.ah(), 1);
  for (const std::uint32_t qkey : {0x80000000u, 0xffffffffu, 0x7fffffffu, 0u}) {
    wr.remote_qkey = qkey;
    ASSERT_EQ(rig.post(wr), PostResult::ok);
  }
  std::vector<std::uint32_t> qkeys;
  for (const Packet& packet : rig.sent()) {
    qkeys.push_back(packet.headers.deth.qkey);
  }
  EXPECT_THAT(qkeys, ElementsAre(0x00abcdefu, 0x00abcdefu, 0x7fffffffu, 0u));
}

TEST(UdRequester, C10_93_1_1_MessageLongerThanThePathMtuIsNeitherSentNorAnError) {
  Rig rig(ud());
  rig.post_send(1, WrOpcode::send, kLongest + 1);
  rig.post_send(2, WrOpcode::send, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::ud_send_only, kPsn)));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  EXPECT_EQ(rig.counters().overlong_datagrams.value(), 1u);
}

TEST(UdRequester, Clause9_1_RequestsThatTheServiceLacksAreRefusedWhenPosted) {
  Rig rig(ud());
  for (const WrOpcode opcode :
       {WrOpcode::send_with_inv, WrOpcode::rdma_write, WrOpcode::rdma_write_with_imm,
        WrOpcode::rdma_read, WrOpcode::atomic_cmp_and_swp, WrOpcode::atomic_fetch_and_add}) {
    roce::SendWr wr = to(rig.ah(), 1);
    wr.opcode = opcode;
    EXPECT_EQ(rig.post(wr), PostResult::invalid_request);
  }
  EXPECT_EQ(rig.qp().send_queue_depth(), 0u);
}

TEST(UdRequester, BadDestinationsAreRefusedWhenPosted) {
  Rig rig(ud());
  EXPECT_EQ(rig.post(to(nullptr, 1)), PostResult::invalid_request);
  roce::SendWr wr = to(rig.ah(), 1);
  wr.remote_qpn = wire::Qpn{0x1000000};
  EXPECT_EQ(rig.post(wr), PostResult::invalid_request);
  const auto other = rig.engine().create_ah(rig.engine().allocate_pd(), rig.ah()->address_vector());
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(rig.post(to(*other, 1)), PostResult::invalid_request);
}

TEST(UdRequester, AddressHandleSaysWhereAndHow) {
  Rig rig(ud());
  roce::AddressVector av = rig.address_vector(Rig::peer_ipv6());
  av.traffic_class = 0x6a;  // datagrams are not ECN-capable: nobody obeys notifications of them
  av.hop_limit = 7;
  av.flow_label = 0x54321;
  ASSERT_EQ(rig.post(to(&rig.make_ah(av), 1)), PostResult::ok);
  rig.post_send(2, WrOpcode::send, 8);
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 2u);
  ASSERT_EQ(sent[0].ip.size(), 40u);
  EXPECT_THAT(std::vector<std::uint8_t>(sent[0].ip.begin(), sent[0].ip.begin() + 4),
              ElementsAre(0x66, 0x85, 0x43, 0x21));
  EXPECT_EQ(sent[0].ip[7], 7);
  EXPECT_TRUE(std::equal(av.source.bytes.begin(), av.source.bytes.end(), &sent[0].ip[8]));
  EXPECT_TRUE(
      std::equal(av.destination.bytes.begin(), av.destination.bytes.end(), &sent[0].ip[24]));
  EXPECT_EQ(sent[1].ip.size(), 20u) << "the next request has a destination of its own";
}

TEST(UdRequester, InlineDataAndGatherLists) {
  Rig rig(ud());
  Payload data = pattern(40);
  const Payload original = data;
  const std::array<roce::Sge, 1> own{
      {{.addr = reinterpret_cast<std::uintptr_t>(data.data()), .length = 40, .lkey = {}}}};
  roce::SendWr wr = to(rig.ah(), 1);
  wr.sg_list = own;
  wr.send_flags = roce::kSendInline;
  ASSERT_EQ(rig.post(wr), PostResult::ok);
  data.assign(data.size(), 0xee);
  const std::array<roce::Sge, 2> pieces{{{.addr = rig.va(900), .length = 300, .lkey = rig.key()},
                                         {.addr = rig.va(10), .length = 100, .lkey = rig.key()}}};
  wr.sg_list = pieces;
  wr.send_flags = 0;
  ASSERT_EQ(rig.post(wr), PostResult::ok);
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].payload, original);
  Payload expected = rig.memory_at(900, 300);
  const Payload rest = rig.memory_at(10, 100);
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(sent[1].payload, expected);
}

TEST(UdRequester, Clause9_9_2_LocalErrorEndsInSqe) {
  Rig rig(ud());
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.invalid_key()}}};
  rig.post_send(1, WrOpcode::send, 8);
  roce::SendWr wr = to(rig.ah(), 2);
  wr.sg_list = list;
  ASSERT_EQ(rig.post(wr), PostResult::ok);
  rig.post_send(3, WrOpcode::send, 8);
  EXPECT_EQ(rig.sent().size(), 1u);
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::loc_prot_err),
                          Completed(3u, WcStatus::wr_flush_err)));
  EXPECT_EQ(rig.qp().state(), QpState::sqe);
  roce::QpAttributes a;
  a.qp_state = QpState::rts;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState).has_value());
  rig.post_send(4, WrOpcode::send, 8);
  EXPECT_EQ(rig.sent().size(), 1u);
}

/// Its place may have been given to another one by then.
TEST(UdRequester, RequestToADestroyedAddressHandleFails) {
  Rig rig(ud());
  roce::AddressHandle& gone = rig.make_ah(rig.ah()->address_vector());
  ASSERT_EQ(rig.post(to(&gone, 1)), PostResult::ok);
  rig.engine().destroy_ah(&gone);
  (void)rig.make_ah(rig.address_vector(kUnknown));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::loc_qp_op_err)));
  EXPECT_EQ(rig.qp().state(), QpState::sqe);
}

TEST(UdRequester, UnreachableDestinationLosesItsDatagramsOnly) {
  Rig rig(ud());
  ASSERT_EQ(rig.post(to(&rig.make_ah(rig.address_vector(kUnreachable)), 1)), PostResult::ok);
  rig.post_send(2, WrOpcode::send, 8);
  EXPECT_EQ(rig.sent().size(), 1u);
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  EXPECT_EQ(rig.counters().unreachable_pkts.value(), 1u);
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

/// Order within a queue pair is kept; others go on. Without an answer the datagram is lost.
TEST(UdRequester, Clause9_8_3_UnresolvedDestinationHoldsUpItsQueuePairOnly) {
  Rig rig(ud());
  roce::QueuePair& other = rig.make_qp(ud());
  rig.bring_up(other, ud());
  ASSERT_EQ(rig.post(to(&rig.make_ah(rig.address_vector(kUnknown)), 1)), PostResult::ok);
  rig.post_send(2, WrOpcode::send, 8);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  ASSERT_EQ(other.post_send(to(rig.ah(), 3)), PostResult::ok);
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].headers.deth.source, other.number());
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(3u, WcStatus::success)));
  // The neighbour is asked for three times, a second apart.
  std::size_t count = 0;
  for (int i = 0; i < 50 && count == 0; ++i) {
    rig.advance(100'000'000);
    count = rig.sent().size();
  }
  EXPECT_EQ(count, 1u);
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  EXPECT_EQ(rig.counters().unreachable_pkts.value(), 1u);
}

TEST(UdRequester, Clause10_3_1_DrainedBetweenAnyTwoDatagrams) {
  Rig rig({.qp_type = QpType::ud, .max_send_wr = 64});
  for (std::uint64_t i = 0; i < 40; ++i) {
    rig.post_send(i, WrOpcode::send, 8);
  }
  EXPECT_EQ(rig.sent_in_turn().size(), 32u);
  roce::QpAttributes a;
  a.qp_state = QpState::sqd;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState | roce::kQpEnSqdAsyncNotify).has_value());
  EXPECT_EQ(rig.async_events().size(), 1u);
  EXPECT_THAT(rig.sent(), IsEmpty());
  a.qp_state = QpState::rts;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState).has_value());
  EXPECT_EQ(rig.sent().size(), 8u);
}

TEST(AddressHandles, BadOnesAreRefused) {
  Rig rig(ud());
  using Change = void (*)(roce::AddressVector&);
  const std::vector<std::pair<const char*, Change>> changes = {
      {"foreign source",
       [](roce::AddressVector& av) { av.source = stack::IpAddress::from_ipv4(0x0a000009); }},
      {"no destination", [](roce::AddressVector& av) { av.destination = {}; }},
      {"group of the other family",
       [](roce::AddressVector& av) { av.destination = *stack::IpAddress::parse("ff0e::1"); }},
      {"two families", [](roce::AddressVector& av) { av.destination = Rig::peer_ipv6(); }},
      {"flow label", [](roce::AddressVector& av) { av.flow_label = 1u << 20; }},
      {"service level", [](roce::AddressVector& av) { av.service_level = 8; }},
  };
  for (const auto& [name, change] : changes) {
    roce::AddressVector av = rig.ah()->address_vector();
    change(av);
    const auto made = rig.engine().create_ah(rig.pd(), av);
    ASSERT_FALSE(made.has_value()) << name;
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument) << name;
  }
  const auto made = rig.engine().create_ah(roce::ProtectionDomain{999}, rig.ah()->address_vector());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::not_found);
}

TEST(AddressHandles, ProtectionDomainIsBusyWhileItHasSome) {
  Rig rig(ud());
  const auto pd = rig.engine().allocate_pd();
  const auto ah = rig.engine().create_ah(pd, rig.ah()->address_vector());
  ASSERT_TRUE(ah.has_value());
  EXPECT_FALSE(rig.engine().deallocate_pd(pd).has_value());
  rig.engine().destroy_ah(*ah);
  EXPECT_TRUE(rig.engine().deallocate_pd(pd).has_value());
}

TEST(AddressHandles, TheirNumberIsLimitedAndTheirIdsAreNot) {
  Rig rig(ud());
  std::vector<roce::AddressHandle*> made;
  std::set<std::uint64_t> ids;
  while (true) {
    const auto ah = rig.engine().create_ah(rig.pd(), rig.ah()->address_vector());
    if (!ah) {
      EXPECT_EQ(ah.error().code, ErrorCode::exhausted);
      break;
    }
    made.push_back(*ah);
    ids.insert((*ah)->id());
    ASSERT_LE(made.size(), 1u << 16);
  }
  EXPECT_EQ(made.size() + 1, 1u << 16);
  for (roce::AddressHandle* ah : made) {
    rig.engine().destroy_ah(ah);
    roce::AddressHandle& again = rig.make_ah(rig.ah()->address_vector());
    EXPECT_TRUE(ids.insert(again.id()).second);
  }
}

}  // namespace
}  // namespace rockhopper::test::ud_requester_test
