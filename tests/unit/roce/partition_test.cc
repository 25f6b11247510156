// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Partitions: the P_Key table of the port and the queue pairs' P_Keys (IBTA vol. 1, 10.9).
#include "roce/gsi.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::partition_test {
namespace {

using roce::AsyncEventType;
using roce::DropReason;
using roce::PkeyTable;
using roce::QpState;
using roce::QpType;
using roce::WrOpcode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::Opcode;

constexpr std::uint16_t kFull = 0x8123;
constexpr std::uint16_t kLimited = 0x0123;
constexpr std::uint16_t kOther = 0x8124;

MATCHER_P(HasPkey, pkey, "") { return arg.headers.bth.pkey == pkey; }
MATCHER_P(IsEvent, type, "") { return arg.type == type; }

Packet write(const Rig& rig) {
  return write_packet(Opcode::rc_rdma_write_only, 0x020000,
                      {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8));
}

bool takes_write(std::uint16_t own, std::uint16_t received) {
  Rig rig({.pkeys = {wire::kDefaultPkey, own}, .pkey_index = 1});
  rig.inject(write(rig), {.pkey = received});
  const bool taken = !rig.sent().empty();
  EXPECT_EQ(rig.drops(DropReason::bad_pkey), taken ? 0u : 1u);
  EXPECT_EQ(rig.engine().query_port().bad_pkey_cntr, taken ? 0u : 1u);
  EXPECT_EQ(rig.untouched_outside(0, 0), !taken);
  return taken;
}

TEST(Partition, Clause10_9_3_MembersOfOnePartitionTalkUnlessBothAreLimited) {
  EXPECT_TRUE(takes_write(kFull, kFull));
  EXPECT_TRUE(takes_write(kFull, kLimited));
  EXPECT_TRUE(takes_write(kLimited, kFull));
  EXPECT_FALSE(takes_write(kLimited, kLimited));
}

TEST(Partition, Clause10_9_3_OtherPartitionsAreDropped) {
  for (const std::uint16_t other : std::initializer_list<std::uint16_t>{
           kOther, wire::kDefaultPkey, 0x7fff, 0x0000, 0x8000, 0x0124}) {
    EXPECT_FALSE(takes_write(kFull, other)) << other;
    EXPECT_FALSE(takes_write(kLimited, other)) << other;
  }
}

TEST(Partition, Clause9_2_6_RequestsAndAnswersCarryTheQueuePairsPkey) {
  for (const QpType type : {QpType::rc, QpType::uc}) {
    Rig rig({.qp_type = type, .pkeys = {wire::kDefaultPkey, kOther, kLimited}, .pkey_index = 2});
    rig.post_send(1, WrOpcode::send, 700);
    const auto sent = rig.sent();
    EXPECT_THAT(sent, SizeIs(3));
    EXPECT_THAT(sent, Each(HasPkey(kLimited)));
  }
  Rig rig({.pkeys = {kFull}});
  rig.inject(write(rig), {.pkey = kLimited});
  EXPECT_THAT(rig.sent(), ElementsAre(HasPkey(kFull)));
  Packet read = read_request(0x020001, {.va = rig.va(), .rkey = rig.rkey(), .length = 300});
  rig.inject(read, {.pkey = kFull});
  const auto responses = rig.sent();
  EXPECT_THAT(responses, SizeIs(2));
  EXPECT_THAT(responses, Each(HasPkey(kFull)));
}

TEST(Partition, CongestionNotificationsCarryItToo) {
  Rig rig({.pkeys = {kFull}});
  rig.inject(write(rig), {.pkey = kFull, .traffic_class = 3});
  const auto sent = rig.sent();
  EXPECT_THAT(sent, SizeIs(2));
  EXPECT_THAT(sent, Each(HasPkey(kFull)));
}

TEST(Partition, DatagramsHaveTheQueuePairsPkeyBothWays) {
  Rig rig({.qp_type = QpType::ud, .pkeys = {wire::kDefaultPkey, kFull}, .pkey_index = 1});
  rig.post_recv(1, 1024);
  rig.inject(datagram(Opcode::ud_send_only, pattern(8)));
  EXPECT_EQ(rig.drops(DropReason::bad_pkey), 1u);
  rig.inject(datagram(Opcode::ud_send_only, pattern(8)), {.pkey = kLimited});
  EXPECT_THAT(rig.recv_completions(), SizeIs(1));
  rig.post_send(2, WrOpcode::send, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(HasPkey(kFull)));
}

TEST(Partition, Clause11_2_5_2_AnIndexMustNameAPartition) {
  Rig rig({.state = QpState::reset, .pkeys = {wire::kDefaultPkey, 0x0000, 0x8000, kFull}});
  const auto to_init = [&](std::uint16_t index) {
    return rig.qp()
        .modify({.qp_state = QpState::init, .pkey_index = index},
                roce::kQpState | step_masks(QpType::rc).init)
        .has_value();
  };
  EXPECT_FALSE(to_init(1));
  EXPECT_FALSE(to_init(2));
  EXPECT_FALSE(to_init(4));
  EXPECT_FALSE(to_init(PkeyTable::kSize));
  EXPECT_EQ(rig.qp().state(), QpState::reset);
  EXPECT_TRUE(to_init(3));
  EXPECT_EQ(rig.qp().query().pkey_index, 3u);
}

TEST(Partition, Clause10_3_1_TheIndexCanChangeInSqd) {
  Rig rig({.pkeys = {wire::kDefaultPkey, kFull}});
  ASSERT_TRUE(rig.qp().modify({.qp_state = QpState::sqd}, roce::kQpState));
  ASSERT_TRUE(rig.qp().modify({.pkey_index = 1}, roce::kQpPkeyIndex));
  ASSERT_TRUE(rig.qp().modify({.qp_state = QpState::rts}, roce::kQpState));
  rig.post_send(1, WrOpcode::send, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(HasPkey(kFull)));
  rig.inject(ack(0x001000, 1), {.pkey = kFull});
  EXPECT_THAT(rig.send_completions(), SizeIs(1));
}

TEST(Partition, Clause10_9_2_TableChangesReachLiveQueuePairs) {
  Rig rig;
  EXPECT_TRUE(rig.engine().set_pkey(0, wire::kDefaultPkey));
  EXPECT_THAT(rig.async_events(), IsEmpty()) << "no change";
  ASSERT_TRUE(rig.engine().set_pkey(0, kFull));
  EXPECT_THAT(rig.async_events(), ElementsAre(IsEvent(AsyncEventType::pkey_change)));
  EXPECT_EQ(rig.engine().query_pkey(0).value(), kFull);
  rig.inject(write(rig));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(write(rig), {.pkey = kFull});
  EXPECT_THAT(rig.sent(), ElementsAre(HasPkey(kFull)));
  ASSERT_TRUE(rig.engine().set_pkey(1, kOther));
  rig.post_send(1, WrOpcode::send, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(HasPkey(kFull))) << "another entry";
}

TEST(Partition, AnEmptiedEntryReachesNobody) {
  Rig rig;
  ASSERT_TRUE(rig.engine().set_pkey(0, 0));
  for (const std::uint16_t pkey :
       std::initializer_list<std::uint16_t>{0x0000, 0x8000, 0x7fff, 0xffff}) {
    rig.inject(write(rig), {.pkey = pkey});
  }
  EXPECT_EQ(rig.drops(DropReason::bad_pkey), 4u);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Partition, TheTableHasItsSize) {
  Rig rig({.pkeys = std::vector<std::uint16_t>(PkeyTable::kSize, kFull)});
  EXPECT_EQ(rig.engine().query_port().pkey_tbl_len, PkeyTable::kSize);
  EXPECT_EQ(rig.engine().query_pkey(PkeyTable::kSize - 1).value(), kFull);
  EXPECT_FALSE(rig.engine().query_pkey(PkeyTable::kSize));
  EXPECT_FALSE(rig.engine().set_pkey(PkeyTable::kSize, kFull));
  EXPECT_FALSE(PkeyTable::create(std::vector<std::uint16_t>(PkeyTable::kSize + 1, kFull)));
}

TEST(Partition, FindPrefersFullMembership) {
  const auto table = PkeyTable::create(std::vector<std::uint16_t>{kLimited, 0, kFull, kLimited});
  ASSERT_TRUE(table);
  EXPECT_EQ(table->find(kFull), 2);
  EXPECT_EQ(table->find(kLimited), 2);
  EXPECT_EQ(table->find(kOther), std::nullopt);
  EXPECT_EQ(table->find(0), std::nullopt);
  const auto limited = PkeyTable::create(std::vector<std::uint16_t>{kLimited});
  ASSERT_TRUE(limited);
  EXPECT_EQ(limited->find(kFull), 0);
  EXPECT_EQ(limited->find(kLimited), std::nullopt) << "two limited members";
}

/// Queue pair 1 takes what is of any partition of the port, and says of which.
TEST(Partition, Clause9_6_1_1_3_QueuePair1ServesEveryPartitionOfThePort) {
  Rig rig({.pkeys = {wire::kDefaultPkey, kFull, 0x0777}});
  auto gsi = roce::Gsi::create(rig.engine());
  ASSERT_TRUE(gsi);
  Packet mad = datagram(Opcode::ud_send_only, pattern(wire::kMadBytes), wire::kGsiQkey);
  mad.headers.bth.destination = wire::kGsiQpn;
  mad.headers.deth.source = wire::kGsiQpn;
  for (const std::uint16_t pkey :
       std::initializer_list<std::uint16_t>{0xffff, kLimited, 0x8777, 0x0777, kOther}) {
    rig.inject(mad, {.pkey = pkey});
  }
  std::vector<std::uint16_t> indexes;
  (*gsi)->poll(rig.now_ns(), [&](const roce::ReceivedMad& received) {
    indexes.push_back(received.reply.pkey_index);
  });
  EXPECT_THAT(indexes, ElementsAre(0, 1, 2));
  EXPECT_EQ(rig.drops(DropReason::bad_pkey), 2u);
}

}  // namespace
}  // namespace rockhopper::test::partition_test
