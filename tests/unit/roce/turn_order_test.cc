// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What leaves first, when a queue pair owes answers and has requests of its own.
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::turn_order_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kOurPsn = 0x001000;

void inject_write(Rig& rig, std::uint32_t psn) {
  rig.inject(write_packet(Opcode::rc_rdma_write_only, psn,
                          {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8)));
}

TEST(TurnOrder, AnAckBehindARequestWaitsForTheNextTurn) {
  Rig rig;
  inject_write(rig, kPsn);
  rig.post_send(1, roce::WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent_in_turn(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kOurPsn)));
  EXPECT_LE(rig.host().next_deadline_ns(), rig.now_ns());
  EXPECT_THAT(rig.sent_in_turn(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_THAT(rig.sent_in_turn(), IsEmpty());
}

TEST(TurnOrder, AnAckAloneLeavesAtOnce) {
  Rig rig;
  inject_write(rig, kPsn);
  EXPECT_THAT(rig.sent_in_turn(), ElementsAre(IsAck(kPsn, 1u)));
}

TEST(TurnOrder, AnAckWaitsOnceAlthoughRequestsGoOn) {
  Rig rig;
  inject_write(rig, kPsn);
  rig.post_send(1, roce::WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent_in_turn(), SizeIs(1));
  rig.post_send(2, roce::WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent_in_turn(),
              ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kOurPsn + 1), IsAck(kPsn, 1u)));
  // The next one may wait again.
  inject_write(rig, kPsn + 1);
  rig.post_send(3, roce::WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent_in_turn(), SizeIs(1));
  EXPECT_THAT(rig.sent_in_turn(), ElementsAre(IsAck(kPsn + 1, 2u)));
}

TEST(TurnOrder, ANakDoesNotWait) {
  Rig rig;
  inject_write(rig, kPsn + 1);
  rig.post_send(1, roce::WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent_in_turn(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kOurPsn),
                                              IsNak(kPsn, NakCode::psn_sequence_error)));
}

TEST(TurnOrder, ResponsesDoNotWait) {
  Rig rig;
  rig.inject(read_request(kPsn, {.va = rig.va(), .rkey = rig.rkey(), .length = 8}));
  rig.post_send(1, roce::WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent_in_turn(), ElementsAre(IsPacket(Opcode::rc_rdma_read_response_only, kPsn),
                                              IsPacket(Opcode::rc_rdma_write_only, kOurPsn)));
}

TEST(TurnOrder, ADestroyedQueuePairOwesNothing) {
  Rig rig;
  inject_write(rig, kPsn);
  rig.post_send(1, roce::WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent_in_turn(), SizeIs(1));
  rig.engine().destroy_qp(&rig.qp());
  EXPECT_THAT(rig.sent_in_turn(), IsEmpty());
}

}  // namespace
}  // namespace rockhopper::test::turn_order_test
