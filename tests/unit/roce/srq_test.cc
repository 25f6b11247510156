// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Shared receive queues (IBTA vol. 1, 10.2.9).
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::srq_test {
namespace {

using roce::AsyncEventType;
using roce::DropReason;
using roce::PostResult;
using roce::QpState;
using roce::WcStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kMtu = 256;
const ConnectionOptions kWithSrq{.srq_max_wr = 8};

MATCHER_P2(IsQpEvent, type, qp, "") { return arg.type == type && arg.qp_num == qp; }
MATCHER_P2(IsSrqEvent, type, srq, "") { return arg.type == type && arg.srq == srq; }
MATCHER_P3(CompletedOn, wr_id, status, qp, "") {
  return arg.wr_id == wr_id && arg.status == status && arg.qp_num == qp;
}

/// A second queue pair of the rig's SRQ.
roce::QueuePair& add_qp(Rig& rig, const ConnectionOptions& options = kWithSrq) {
  roce::QueuePair& qp = rig.make_qp(options);
  rig.bring_up(qp, options);
  return qp;
}

Packet towards(const roce::QueuePair& qp, Packet packet) {
  packet.headers.bth.destination = qp.number();
  return packet;
}

Packet send_only(std::uint32_t psn, Payload payload) {
  return packet(Opcode::rc_send_only, psn, std::move(payload));
}

void arm(Rig& rig, std::uint32_t limit) {
  ASSERT_TRUE(rig.srq().modify({.srq_limit = limit}, roce::kSrqLimit));
}

TEST(SharedReceive, CreationChecksLimitsAndDomain) {
  Rig rig;
  const auto create = [&](std::uint32_t max_wr, std::uint32_t max_sge) {
    return rig.engine().create_srq(
        {.pd = rig.pd(), .attributes = {.max_wr = max_wr, .max_sge = max_sge}});
  };
  EXPECT_FALSE(create(0, 1));
  EXPECT_FALSE(create(roce::kMaxSrqWr + 1, 1));
  EXPECT_FALSE(create(1, 0));
  EXPECT_FALSE(create(1, roce::kMaxSge + 1));
  EXPECT_FALSE(rig.engine().create_srq({.pd = roce::ProtectionDomain{999}}));
  const auto srq = create(5, roce::kMaxSge);
  ASSERT_TRUE(srq);
  const auto attributes = (*srq)->query();
  EXPECT_EQ(attributes.max_wr, 5u);
  EXPECT_EQ(attributes.max_sge, roce::kMaxSge);
  EXPECT_EQ(attributes.srq_limit, 0u);
  EXPECT_EQ(rig.engine().find_srq((*srq)->number()), *srq);
  EXPECT_EQ(rig.engine().find_srq((*srq)->number() ^ 1u << 20), nullptr);
}

TEST(SharedReceive, ManyHaveNumbersOfTheirOwn) {
  Rig rig;
  std::vector<roce::SharedReceiveQueue*> all;
  for (int i = 0; i < 300; ++i) {
    all.push_back(*rig.engine().create_srq({.pd = rig.pd(), .attributes = {.max_wr = 1}}));
  }
  for (roce::SharedReceiveQueue* srq : all) {
    EXPECT_EQ(rig.engine().find_srq(srq->number()), srq);
    EXPECT_LE(srq->number(), wire::kMask24);
  }
  for (roce::SharedReceiveQueue* srq : all) {
    const std::uint32_t number = srq->number();
    EXPECT_TRUE(rig.engine().destroy_srq(srq));
    EXPECT_EQ(rig.engine().find_srq(number), nullptr);
  }
}

TEST(SharedReceive, UnreliableConnectionsHaveNone) {
  Rig rig(kWithSrq);
  const auto qp = rig.engine().create_qp({.qp_type = roce::QpType::uc,
                                          .pd = rig.pd(),
                                          .send_cq = &rig.send_cq(),
                                          .recv_cq = &rig.recv_cq(),
                                          .srq = &rig.srq()});
  ASSERT_FALSE(qp);
  EXPECT_EQ(qp.error().code, ErrorCode::unsupported);
}

TEST(SharedReceive, SrqOfAnotherEngineIsRefused) {
  Rig one(kWithSrq);
  Rig other;
  EXPECT_FALSE(other.engine().create_qp({.pd = other.pd(),
                                         .send_cq = &other.send_cq(),
                                         .recv_cq = &other.recv_cq(),
                                         .srq = &one.srq()}));
}

TEST(SharedReceive, QueuePairTakesNoReceivesOfItsOwn) {
  Rig rig(kWithSrq);
  EXPECT_EQ(rig.qp().post_recv({.wr_id = 1}), PostResult::invalid_request);
}

TEST(SharedReceive, PostingChecksRoomAndElements) {
  Rig rig({.srq_max_wr = 2, .max_sge = 2});
  const std::array<roce::Sge, 3> list{};
  EXPECT_EQ(rig.srq().post_recv({.wr_id = 1, .sg_list = list}), PostResult::too_many_sges);
  EXPECT_EQ(rig.srq().post_recv({.wr_id = 1}), PostResult::ok);
  EXPECT_EQ(rig.srq().post_recv({.wr_id = 2}), PostResult::ok);
  EXPECT_EQ(rig.srq().post_recv({.wr_id = 3}), PostResult::queue_full);
  EXPECT_EQ(rig.srq().depth(), 2u);
}

TEST(SharedReceive, OldestRequestServesWhoeverReceivesFirst) {
  Rig rig(kWithSrq);
  roce::QueuePair& second = add_qp(rig);
  for (std::uint64_t i = 0; i < 3; ++i) {
    rig.post_recv(i, 64, i * 64);
  }
  rig.inject(towards(second, send_only(kPsn, pattern(10, 1))));
  rig.inject(send_only(kPsn, pattern(20, 2)));
  rig.inject(towards(second, send_only(kPsn + 1, pattern(30, 3))));
  EXPECT_THAT(rig.recv_completions(),
              ElementsAre(CompletedOn(0u, WcStatus::success, second.number()),
                          CompletedOn(1u, WcStatus::success, rig.qp().number()),
                          CompletedOn(2u, WcStatus::success, second.number())));
  EXPECT_EQ(rig.memory_at(0, 10), pattern(10, 1));
  EXPECT_EQ(rig.memory_at(64, 20), pattern(20, 2));
  EXPECT_EQ(rig.memory_at(128, 30), pattern(30, 3));
  EXPECT_EQ(rig.srq().depth(), 0u);
}

TEST(SharedReceive, Clause10_2_9_RequestIsTheQueuePairsFromTheFirstPacketOn) {
  Rig rig(kWithSrq);
  roce::QueuePair& second = add_qp(rig);
  rig.post_recv(1, 2 * kMtu, 0);
  rig.post_recv(2, 2 * kMtu, 1024);
  rig.inject(packet(Opcode::rc_send_first, kPsn, pattern(kMtu, 1)));
  EXPECT_EQ(rig.srq().depth(), 1u);
  EXPECT_EQ(rig.qp().recv_queue_depth(), 1u);
  rig.inject(towards(second, packet(Opcode::rc_send_first, kPsn, pattern(kMtu, 2))));
  rig.inject(towards(second, packet(Opcode::rc_send_last, kPsn + 1, pattern(8, 3))));
  rig.inject(packet(Opcode::rc_send_last, kPsn + 1, pattern(9, 4)));
  // The later request completes first.
  EXPECT_THAT(rig.recv_completions(),
              ElementsAre(CompletedOn(2u, WcStatus::success, second.number()),
                          CompletedOn(1u, WcStatus::success, rig.qp().number())));
  EXPECT_EQ(rig.memory_at(0, kMtu), pattern(kMtu, 1));
  EXPECT_EQ(rig.memory_at(kMtu, 9), pattern(9, 4));
  EXPECT_EQ(rig.memory_at(1024, kMtu), pattern(kMtu, 2));
  EXPECT_EQ(rig.memory_at(1024 + kMtu, 8), pattern(8, 3));
}

TEST(SharedReceive, Clause9_7_5_EmptyDrawsAnRnrNakAndTheRetryIsServed) {
  Rig rig(kWithSrq);
  const auto send = send_only(kPsn, pattern(8));
  rig.inject(send);
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, 12)));
  rig.post_recv(1, 64, 0);
  EXPECT_THAT(rig.sent(), IsEmpty()) << "nobody is told of requests that anyone may take";
  rig.inject(send);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::success)));
}

TEST(SharedReceive, Clause9_7_7_2_AcksAndResponsesPromiseNothing) {
  Rig rig(kWithSrq);
  rig.post_recv(1, 64, 0);
  rig.post_recv(2, 64, 0);
  const auto expect_no_limit = [&] {
    const auto answer = rig.sent();
    ASSERT_EQ(answer.size(), 1u);
    EXPECT_EQ(answer[0].headers.aeth.credit(), wire::kCreditCodeUnlimited);
  };
  rig.inject(send_only(kPsn, pattern(8)));
  expect_no_limit();
  const wire::Reth reth{.va = rig.va(), .rkey = rig.rkey(), .length = 8};
  rig.inject(read_request(kPsn + 1, reth));
  expect_no_limit();
  rig.inject(fetch_add(kPsn + 2, rig.va(), rig.rkey(), 1));
  expect_no_limit();
}

TEST(SharedReceive, WriteWithImmediateTakesOneAtItsEnd) {
  Rig rig(kWithSrq);
  const wire::Reth reth{.va = rig.va(512), .rkey = rig.rkey(), .length = kMtu + 8};
  rig.inject(write_packet(Opcode::rc_rdma_write_first, kPsn, reth, pattern(kMtu)));
  const auto last = packet(Opcode::rc_rdma_write_last_with_immediate, kPsn + 1, pattern(8, 9));
  (void)rig.sent();
  rig.inject(last);
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn + 1, 12)));
  rig.post_recv(1, 0, 0);
  rig.inject(last);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn + 1, 1u)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, kMtu + 8)));
  EXPECT_EQ(rig.srq().depth(), 0u);
}

TEST(SharedReceive, RefusedWriteWithImmediateTakesNone) {
  Rig rig(kWithSrq);
  rig.post_recv(1, 64, 0);
  const auto key = static_cast<std::uint32_t>(rig.invalid_key());
  rig.inject(write_packet(Opcode::rc_rdma_write_only_with_immediate, kPsn,
                          {.va = rig.va(512), .rkey = key, .length = 8}, pattern(8)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  EXPECT_EQ(rig.srq().depth(), 1u);
}

TEST(SharedReceive, TooLongMessageFailsTheRequestItHasTaken) {
  Rig rig(kWithSrq);
  rig.post_recv(1, 32, 0);
  rig.post_recv(2, 32, 64);
  rig.inject(send_only(kPsn, pattern(33)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::loc_len_err)));
  EXPECT_EQ(rig.srq().depth(), 1u);
}

TEST(SharedReceive, LimitEventComesOnceForEachArming) {
  Rig rig(kWithSrq);
  for (std::uint64_t i = 0; i < 4; ++i) {
    rig.post_recv(i, 64, 0);
  }
  arm(rig, 3);
  EXPECT_EQ(rig.srq().query().srq_limit, 3u);
  rig.inject(send_only(kPsn, pattern(8)));
  EXPECT_THAT(rig.async_events(), IsEmpty()) << "3 of 3 wait";
  rig.inject(send_only(kPsn + 1, pattern(8)));
  EXPECT_THAT(rig.async_events(),
              ElementsAre(IsSrqEvent(AsyncEventType::srq_limit_reached, &rig.srq())));
  EXPECT_EQ(rig.srq().query().srq_limit, 0u);
  rig.inject(send_only(kPsn + 2, pattern(8)));
  EXPECT_THAT(rig.async_events(), IsEmpty());
  arm(rig, 1);
  EXPECT_THAT(rig.async_events(), IsEmpty());
  rig.inject(send_only(kPsn + 3, pattern(8)));
  EXPECT_EQ(rig.async_events().size(), 1u);
}

TEST(SharedReceive, LimitAboveWhatWaitsRaisesItsEventAtOnce) {
  Rig rig(kWithSrq);
  rig.post_recv(1, 64, 0);
  arm(rig, 2);
  EXPECT_THAT(rig.async_events(),
              ElementsAre(IsSrqEvent(AsyncEventType::srq_limit_reached, &rig.srq())));
  EXPECT_EQ(rig.srq().query().srq_limit, 0u);
}

TEST(SharedReceive, ModifyIsAllOrNothing) {
  Rig rig(kWithSrq);
  rig.post_recv(1, 64, 0);
  rig.post_recv(2, 64, 0);
  auto& srq = rig.srq();
  EXPECT_FALSE(srq.modify({.max_wr = 16, .srq_limit = 17}, roce::kSrqMaxWr | roce::kSrqLimit));
  EXPECT_FALSE(srq.modify({.max_wr = 1, .srq_limit = 1}, roce::kSrqMaxWr | roce::kSrqLimit));
  EXPECT_FALSE(srq.modify({.max_wr = 0}, roce::kSrqMaxWr));
  EXPECT_FALSE(srq.modify({.max_wr = roce::kMaxSrqWr + 1}, roce::kSrqMaxWr));
  EXPECT_FALSE(srq.modify({}, 1u << 5));
  EXPECT_EQ(srq.query().max_wr, 8u);
  EXPECT_EQ(srq.query().srq_limit, 0u);
  EXPECT_THAT(rig.async_events(), IsEmpty());
  EXPECT_TRUE(srq.modify({.max_wr = 16, .srq_limit = 2}, roce::kSrqMaxWr | roce::kSrqLimit));
  EXPECT_EQ(srq.query().max_wr, 16u);
  EXPECT_EQ(srq.query().srq_limit, 2u);
}

TEST(SharedReceive, ResizingKeepsOrderAndLists) {
  Rig rig({.srq_max_wr = 3});
  std::uint32_t psn = kPsn;
  std::uint64_t posted = 0;
  std::uint64_t received = 0;
  const auto post = [&](int count) {
    for (int i = 0; i < count; ++i, ++posted) {
      rig.post_recv(posted, 32, posted * 32);
    }
  };
  const auto receive = [&](int count) {
    for (int i = 0; i < count; ++i, ++received) {
      const auto content = pattern(20, static_cast<std::uint8_t>(received));
      rig.inject(send_only(psn++, content));
      EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(received, 20u)));
      EXPECT_EQ(rig.memory_at(received * 32, 20), content);
    }
  };
  const auto resize = [&](std::uint32_t max_wr) {
    ASSERT_TRUE(rig.srq().modify({.max_wr = max_wr}, roce::kSrqMaxWr));
    EXPECT_EQ(rig.srq().query().max_wr, max_wr);
  };
  post(3);
  receive(2);
  post(2);
  resize(20);
  post(15);
  receive(10);
  resize(8);
  EXPECT_EQ(rig.srq().post_recv({}), PostResult::queue_full);
  receive(3);
  post(3);
  receive(8);
  EXPECT_EQ(rig.srq().depth(), 0u);
}

TEST(SharedReceive, ErrorFlushesOnlyWhatTheQueuePairHasTaken) {
  Rig rig(kWithSrq);
  roce::QueuePair& second = add_qp(rig);
  for (std::uint64_t i = 0; i < 3; ++i) {
    rig.post_recv(i, 2 * kMtu, i * 1024);
  }
  rig.inject(packet(Opcode::rc_send_first, kPsn, pattern(kMtu)));
  rig.inject(packet(Opcode::rc_rdma_write_last, kPsn + 1, pattern(8)));  // out of its place
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_THAT(rig.recv_completions(),
              ElementsAre(CompletedOn(0u, WcStatus::wr_flush_err, rig.qp().number())));
  EXPECT_THAT(rig.async_events(),
              ElementsAre(IsQpEvent(AsyncEventType::qp_req_err, rig.qp().number()),
                          IsQpEvent(AsyncEventType::qp_last_wqe_reached, rig.qp().number())));
  EXPECT_EQ(rig.srq().depth(), 2u);
  rig.inject(towards(second, send_only(kPsn, pattern(8))));
  EXPECT_THAT(rig.recv_completions(),
              ElementsAre(CompletedOn(1u, WcStatus::success, second.number())));
}

TEST(SharedReceive, Clause11_6_3_MovingToErrorReachesTheLastWqe) {
  Rig rig(kWithSrq);
  ASSERT_TRUE(rig.qp().modify({.qp_state = QpState::err}, roce::kQpState));
  EXPECT_THAT(rig.async_events(),
              ElementsAre(IsQpEvent(AsyncEventType::qp_last_wqe_reached, rig.qp().number())));
  Rig without;
  ASSERT_TRUE(without.qp().modify({.qp_state = QpState::err}, roce::kQpState));
  EXPECT_THAT(without.async_events(), IsEmpty());
}

TEST(SharedReceive, ResetForgetsTheRequestInProgress) {
  Rig rig(kWithSrq);
  rig.post_recv(1, 2 * kMtu, 0);
  rig.post_recv(2, 2 * kMtu, 1024);
  rig.inject(packet(Opcode::rc_send_first, kPsn, pattern(kMtu)));
  (void)rig.sent();
  ASSERT_TRUE(rig.qp().modify({.qp_state = QpState::reset}, roce::kQpState));
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  rig.bring_up(rig.qp(), kWithSrq);
  rig.inject(send_only(kPsn, pattern(8)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(2u, WcStatus::success)));
}

TEST(SharedReceive, BuffersAreOfTheSrqsDomainWhatThePeerNamesOfTheQueuePairs) {
  for (const bool buffer_of_srq : {true, false}) {
    Rig rig;
    const auto other = rig.engine().allocate_pd();
    const auto srq = *rig.engine().create_srq({.pd = other, .attributes = {.max_wr = 4}});
    const auto region =
        *rig.engine().register_memory(other, rig.memory(), 4096, roce::kAccessLocalWrite);
    roce::QueuePair* qp = *rig.engine().create_qp(
        {.pd = rig.pd(), .send_cq = &rig.send_cq(), .recv_cq = &rig.recv_cq(), .srq = srq});
    rig.bring_up(*qp, {});
    const std::array<roce::Sge, 1> list{
        {{.addr = rig.va(), .length = 64, .lkey = buffer_of_srq ? region.key : rig.key()}}};
    ASSERT_EQ(srq->post_recv({.wr_id = 1, .sg_list = list}), PostResult::ok);
    rig.inject(towards(*qp, send_only(kPsn, pattern(8))));
    const auto status = buffer_of_srq ? WcStatus::success : WcStatus::loc_prot_err;
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, status)));
    EXPECT_EQ(rig.untouched_outside(0, 0), !buffer_of_srq);
  }
}

TEST(SharedReceive, DestructionWaitsForTheQueuePairs) {
  Rig rig(kWithSrq);
  const auto destroyed = rig.engine().destroy_srq(&rig.srq());
  ASSERT_FALSE(destroyed);
  EXPECT_EQ(destroyed.error().code, ErrorCode::busy);
  roce::QueuePair& second = add_qp(rig);
  rig.engine().destroy_qp(&second);
  EXPECT_FALSE(rig.engine().destroy_srq(&rig.srq()));
}

TEST(SharedReceive, DestructionTakesTheEventsAlong) {
  Rig rig;
  const auto pd = rig.engine().allocate_pd();
  const auto srq = *rig.engine().create_srq({.pd = pd, .attributes = {.max_wr = 4}});
  ASSERT_TRUE(srq->modify({.srq_limit = 1}, roce::kSrqLimit));
  const auto freed = rig.engine().deallocate_pd(pd);
  ASSERT_FALSE(freed);
  EXPECT_EQ(freed.error().code, ErrorCode::busy);
  ASSERT_TRUE(rig.engine().destroy_srq(srq));
  EXPECT_THAT(rig.async_events(), IsEmpty());
  EXPECT_TRUE(rig.engine().deallocate_pd(pd));
}

TEST(SharedReceive, DatagramsOfSeveralQueuePairs) {
  ConnectionOptions options = kWithSrq;
  options.qp_type = roce::QpType::ud;
  Rig rig(options);
  roce::QueuePair& second = add_qp(rig, options);
  rig.post_recv(1, 100, 0);
  rig.post_recv(2, 100, 128);
  rig.inject(towards(second, datagram(Opcode::ud_send_only, pattern(60, 1))));
  rig.inject(datagram(Opcode::ud_send_only, pattern(50, 2)));
  rig.inject(datagram(Opcode::ud_send_only, pattern(50, 2)));
  EXPECT_THAT(rig.recv_completions(),
              ElementsAre(CompletedOn(1u, WcStatus::success, second.number()),
                          CompletedOn(2u, WcStatus::success, rig.qp().number())));
  EXPECT_EQ(rig.memory_at(roce::kGrhBytes, 60), pattern(60, 1));
  EXPECT_EQ(rig.memory_at(128 + roce::kGrhBytes, 50), pattern(50, 2));
  EXPECT_EQ(rig.drops(DropReason::no_receive), 1u);
}

TEST(SharedReceive, DatagramThatDoesNotFitTakesNone) {
  ConnectionOptions options = kWithSrq;
  options.qp_type = roce::QpType::ud;
  Rig rig(options);
  rig.post_recv(1, 100, 0);
  rig.inject(datagram(Opcode::ud_send_only, pattern(61)));
  EXPECT_EQ(rig.drops(DropReason::short_receive), 1u);
  EXPECT_EQ(rig.srq().depth(), 1u);
  EXPECT_EQ(rig.qp().recv_queue_depth(), 0u);
}

}  // namespace
}  // namespace rockhopper::test::srq_test
