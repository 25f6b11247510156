// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Extended reliable connections (IBTA vol. 1, annex A14): domains, initiators, targets.
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::xrc_test {
namespace {

using roce::DropReason;
using roce::PostResult;
using roce::QpState;
using roce::QpType;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kSendPsn = 0x001000;
constexpr std::uint32_t kMtu = 256;

Opcode xrc(Opcode opcode) { return roce::of_service(wire::ServiceClass::xrc, opcode); }

MATCHER_P2(IsXrcAck, psn, msn, "") {
  return arg.opcode() == Opcode::xrc_acknowledge && arg.psn() == psn &&
         arg.headers.aeth.kind() == wire::AethKind::ack && arg.headers.aeth.msn == msn;
}
MATCHER_P2(IsXrcNak, psn, code, "") {
  return arg.opcode() == Opcode::xrc_acknowledge && arg.psn() == psn &&
         arg.headers.aeth.kind() == wire::AethKind::nak && arg.headers.aeth.nak_code() == code;
}

/// A target and two SRQs of its domain, the second of another protection domain.
struct TargetRig : Rig {
  TargetRig() : xrcd(engine().open_xrcd()), other_pd(engine().allocate_pd()) {
    first = make_srq(pd());
    second = make_srq(other_pd);
    const auto made = engine().create_qp({.qp_type = QpType::xrc_recv, .xrcd = xrcd});
    EXPECT_TRUE(made) << made.error().message;
    target = *made;
    bring_up(*target, {.qp_type = QpType::xrc_recv});
  }
  roce::SharedReceiveQueue* make_srq(roce::ProtectionDomain pd) {
    return *engine().create_srq(
        {.pd = pd, .attributes = {.max_wr = 8}, .xrcd = xrcd, .cq = &recv_cq()});
  }
  void post(roce::SharedReceiveQueue& srq, std::uint64_t wr_id, std::uint32_t length,
            std::size_t offset, roce::MemoryKey lkey) {
    const std::array<roce::Sge, 1> list{{{.addr = va(offset), .length = length, .lkey = lkey}}};
    ASSERT_EQ(srq.post_recv({.wr_id = wr_id, .sg_list = list}), PostResult::ok);
  }
  void inject_to(const roce::SharedReceiveQueue& srq, Packet packet) {
    inject_to(srq.number(), std::move(packet));
  }
  void inject_to(std::uint32_t srq, Packet packet) {
    packet.headers.bth.opcode = static_cast<std::uint8_t>(xrc(packet.opcode()));
    packet.headers.xrceth = {.reserved8 = 0, .xrc_srq = wire::Qpn{srq}};
    packet.headers.bth.destination = target->number();
    inject(packet);
  }

  roce::XrcDomain xrcd;
  roce::ProtectionDomain other_pd;
  roce::SharedReceiveQueue* first = nullptr;
  roce::SharedReceiveQueue* second = nullptr;
  roce::QueuePair* target = nullptr;
};

TEST(XrcTarget, A14_EachMessageGoesToTheSrqThatItNames) {
  TargetRig rig;
  const auto region =
      *rig.engine().register_memory(rig.other_pd, rig.memory(), 4096, roce::kAccessLocalWrite);
  rig.post(*rig.first, 1, 64, 0, rig.key());
  rig.post(*rig.second, 2, 64, 128, region.key);
  rig.inject_to(*rig.second, packet(Opcode::rc_send_only, kPsn, pattern(10, 1)));
  rig.inject_to(*rig.first, packet(Opcode::rc_send_only, kPsn + 1, pattern(20, 2)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsXrcAck(kPsn + 1, 2u)));
  const auto done = rig.recv_completions();
  ASSERT_THAT(done, ElementsAre(Received(2u, 10u), Received(1u, 20u)));
  EXPECT_EQ(done[0].qp_num, rig.target->number());
  EXPECT_EQ(rig.memory_at(128, 10), pattern(10, 1));
  EXPECT_EQ(rig.memory_at(0, 20), pattern(20, 2));
}

TEST(XrcTarget, A14_ReceivesAndRemoteMemoryAreOfTheSrqsDomain) {
  for (const bool right : {true, false}) {
    TargetRig rig;
    rig.inject_to(right ? *rig.first : *rig.second,
                  write_packet(Opcode::rc_rdma_write_only, kPsn,
                               {.va = rig.va(512), .rkey = rig.rkey(), .length = 8}, pattern(8)));
    if (right) {
      EXPECT_THAT(rig.sent(), ElementsAre(IsXrcAck(kPsn, 1u)));
      EXPECT_EQ(rig.memory_at(512, 8), pattern(8));
    } else {
      EXPECT_THAT(rig.sent(), ElementsAre(IsXrcNak(kPsn, NakCode::remote_access_error)));
      EXPECT_TRUE(rig.untouched_outside(0, 0));
    }
  }
}

TEST(XrcTarget, A14_AnswersReadsAndAtomics) {
  TargetRig rig;
  const Payload content = rig.memory_at(512, 300);
  rig.inject_to(*rig.first,
                read_request(kPsn, {.va = rig.va(512), .rkey = rig.rkey(), .length = 300}));
  // The response keeps to the READ's domain, whatever comes meanwhile.
  rig.inject_to(*rig.second, write_packet(Opcode::rc_rdma_write_only, kPsn + 2,
                                          {.va = 0, .rkey = 0, .length = 0}));
  auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_THAT(sent[0], IsResponse(Opcode::xrc_rdma_read_response_first, kPsn,
                                  Payload(content.begin(), content.begin() + kMtu)));
  EXPECT_THAT(sent[1], IsResponse(Opcode::xrc_rdma_read_response_last, kPsn + 1,
                                  Payload(content.begin() + kMtu, content.end())));
  EXPECT_THAT(sent[2], IsXrcAck(kPsn + 2, 2u));
  rig.inject_to(*rig.first, fetch_add(kPsn + 3, rig.va(0), rig.rkey(), 1));
  sent = rig.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].opcode(), Opcode::xrc_atomic_acknowledge);
}

TEST(XrcTarget, A14_SrqOfNobodyOrOfAnotherDomainIsRefused) {
  for (const int kind : {0, 1, 2}) {
    TargetRig rig;
    const auto other = rig.engine().open_xrcd();
    const auto foreign = *rig.engine().create_srq(
        {.pd = rig.pd(), .attributes = {.max_wr = 4}, .xrcd = other, .cq = &rig.recv_cq()});
    const auto plain = *rig.engine().create_srq({.pd = rig.pd(), .attributes = {.max_wr = 4}});
    rig.post(*foreign, 1, 64, 0, rig.key());
    rig.post(*plain, 2, 64, 0, rig.key());
    const std::uint32_t number = kind == 0   ? rig.first->number() ^ 0x800000
                                 : kind == 1 ? foreign->number()
                                             : plain->number();
    rig.inject_to(number, packet(Opcode::rc_send_only, kPsn, pattern(8)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsXrcNak(kPsn, NakCode::invalid_request)));
    EXPECT_EQ(rig.target->state(), QpState::err);
    EXPECT_THAT(rig.recv_completions(), IsEmpty());
    EXPECT_TRUE(rig.untouched_outside(0, 0));
  }
}

TEST(XrcTarget, A14_MessageStaysWithItsSrq) {
  TargetRig rig;
  rig.post(*rig.first, 1, 2 * kMtu, 0, rig.key());
  rig.inject_to(*rig.first, packet(Opcode::rc_send_first, kPsn, pattern(kMtu), false));
  rig.inject_to(*rig.second, packet(Opcode::rc_send_last, kPsn + 1, pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsXrcNak(kPsn + 1, NakCode::invalid_request)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::wr_flush_err)));
}

TEST(XrcTarget, EmptySrqDrawsAnRnrNak) {
  TargetRig rig;
  rig.inject_to(*rig.first, packet(Opcode::rc_send_only, kPsn, pattern(8)));
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].opcode(), Opcode::xrc_acknowledge);
  EXPECT_EQ(sent[0].headers.aeth.kind(), wire::AethKind::rnr_nak);
}

TEST(XrcTarget, SrqThatGoesTakesAMessageHalfWayHereAlong) {
  for (const bool half_way : {true, false}) {
    TargetRig rig;
    rig.post(*rig.first, 1, 2 * kMtu, 0, rig.key());
    if (half_way) {
      rig.inject_to(*rig.first, packet(Opcode::rc_send_first, kPsn, pattern(kMtu), false));
    } else {
      rig.inject_to(*rig.first, packet(Opcode::rc_send_only, kPsn, pattern(8), false));
      (void)rig.recv_completions();
    }
    const std::uint32_t number = rig.first->number();
    ASSERT_TRUE(rig.engine().destroy_srq(rig.first));
    EXPECT_EQ(rig.target->state(), half_way ? QpState::err : QpState::rts);
    EXPECT_EQ(rig.recv_completions().size(), half_way ? 1u : 0u);
    if (!half_way) {
      rig.inject_to(number, packet(Opcode::rc_send_only, kPsn + 1, pattern(8)));
      EXPECT_THAT(rig.sent(), ElementsAre(IsXrcNak(kPsn + 1, NakCode::invalid_request)));
    }
  }
}

TEST(XrcTarget, PacketsOfRcAndResponsesAreNotForIt) {
  TargetRig rig;
  Packet plain = packet(Opcode::rc_send_only, kPsn, pattern(8));
  plain.headers.bth.destination = rig.target->number();
  rig.inject(plain);
  Packet response = ack(kPsn);
  response.headers.bth.opcode = static_cast<std::uint8_t>(Opcode::xrc_acknowledge);
  response.headers.bth.destination = rig.target->number();
  rig.inject(response);
  EXPECT_EQ(rig.drops(DropReason::bad_service), 2u);
}

TEST(XrcTarget, SendsAndReceivesNothingOfItsOwn) {
  TargetRig rig;
  EXPECT_EQ(rig.target->post_recv({}), PostResult::invalid_request);
  EXPECT_EQ(rig.target->post_send({}), PostResult::invalid_request);
  EXPECT_TRUE(rig.target->drain(1, 2));
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
}

struct InitiatorRig : Rig {
  InitiatorRig() {
    const auto made = engine().create_qp(
        {.qp_type = QpType::xrc_send, .pd = pd(), .send_cq = &send_cq(), .sq_sig_all = true});
    EXPECT_TRUE(made) << made.error().message;
    initiator = *made;
    bring_up(*initiator, {.qp_type = QpType::xrc_send});
  }
  void post(std::uint64_t wr_id, WrOpcode opcode, std::uint32_t length, std::uint32_t srq,
            std::uint32_t flags = 0) {
    const std::array<roce::Sge, 1> list{{{.addr = va(), .length = length, .lkey = key()}}};
    ASSERT_EQ(initiator->post_send({.wr_id = wr_id,
                                    .sg_list = list,
                                    .opcode = opcode,
                                    .send_flags = flags,
                                    .remote_addr = 0x1000,
                                    .rkey = roce::MemoryKey{5},
                                    .remote_srqn = srq}),
              PostResult::ok);
  }
  void answer(Packet packet) {
    packet.headers.bth.opcode = static_cast<std::uint8_t>(xrc(packet.opcode()));
    packet.headers.bth.destination = initiator->number();
    inject(packet);
  }
  roce::QueuePair* initiator = nullptr;
};

TEST(XrcInitiator, A14_EveryRequestPacketNamesTheSrq) {
  InitiatorRig rig;
  rig.post(1, WrOpcode::send, 2 * kMtu, 0xabcdef);
  rig.post(2, WrOpcode::rdma_read, 8, 0x000123);
  rig.post(3, WrOpcode::send, 10, 0x000456, roce::kSendInline);
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::xrc_send_first, kSendPsn),
                                IsPacket(Opcode::xrc_send_last, kSendPsn + 1),
                                IsPacket(Opcode::xrc_rdma_read_request, kSendPsn + 2),
                                IsPacket(Opcode::xrc_send_only, kSendPsn + 3)));
  EXPECT_EQ(sent[0].headers.xrceth.xrc_srq.value, 0xabcdefu);
  EXPECT_EQ(sent[1].headers.xrceth.xrc_srq.value, 0xabcdefu);
  EXPECT_EQ(sent[2].headers.xrceth.xrc_srq.value, 0x000123u);
  EXPECT_EQ(sent[3].headers.xrceth.xrc_srq.value, 0x000456u);
  EXPECT_EQ(sent[3].payload, rig.memory_at(0, 10)) << "beside the inline data";
}

TEST(XrcInitiator, CompletesByXrcResponses) {
  InitiatorRig rig;
  rig.post(1, WrOpcode::send, 8, 1);
  rig.post(2, WrOpcode::rdma_read, 8, 1);
  (void)rig.sent();
  rig.answer(ack(kSendPsn));
  rig.answer(read_response(Opcode::rc_rdma_read_response_only, kSendPsn + 1, pattern(8)));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  EXPECT_EQ(rig.memory_at(0, 8), pattern(8));
}

TEST(XrcInitiator, TakesNoRequestsAndNoReceives) {
  InitiatorRig rig;
  Packet request = packet(Opcode::xrc_send_only, kPsn, pattern(8));
  request.headers.bth.destination = rig.initiator->number();
  rig.inject(request);
  EXPECT_EQ(rig.drops(DropReason::bad_service), 1u);
  EXPECT_EQ(rig.initiator->post_recv({}), PostResult::invalid_request);
  EXPECT_EQ(rig.initiator->post_send({.remote_srqn = 1u << 24}), PostResult::invalid_request);
}

TEST(XrcInitiator, IsFlushedAsOthersAre) {
  InitiatorRig rig;
  rig.post(1, WrOpcode::send, 8, 1);
  ASSERT_TRUE(rig.initiator->drain(9, 10));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::wr_flush_err),
                                                  Completed(9u, WcStatus::wr_flush_err)));
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
}

TEST(XrcDomains, LiveAsLongAsTheirObjects) {
  TargetRig rig;
  EXPECT_FALSE(rig.engine().close_xrcd(rig.xrcd));
  rig.engine().destroy_qp(rig.target);
  EXPECT_FALSE(rig.engine().close_xrcd(rig.xrcd));
  ASSERT_TRUE(rig.engine().destroy_srq(rig.first));
  ASSERT_TRUE(rig.engine().destroy_srq(rig.second));
  EXPECT_TRUE(rig.engine().close_xrcd(rig.xrcd));
  EXPECT_FALSE(rig.engine().close_xrcd(rig.xrcd));
}

TEST(XrcDomains, CreationChecksWhatBelongsTogether) {
  TargetRig rig;
  const auto creates = [&](const roce::QpInit& init) {
    return rig.engine().create_qp(init).has_value();
  };
  roce::CompletionQueue* send = &rig.send_cq();
  roce::CompletionQueue* recv = &rig.recv_cq();
  EXPECT_FALSE(creates({.qp_type = QpType::xrc_recv}));
  EXPECT_FALSE(creates({.qp_type = QpType::xrc_recv, .xrcd = roce::XrcDomain{77}}));
  EXPECT_FALSE(creates({.qp_type = QpType::xrc_recv, .recv_cq = recv, .xrcd = rig.xrcd}));
  EXPECT_FALSE(creates({.qp_type = QpType::xrc_send, .pd = rig.pd()}));
  EXPECT_FALSE(
      creates({.qp_type = QpType::xrc_send, .pd = rig.pd(), .send_cq = send, .recv_cq = recv}));
  EXPECT_FALSE(
      creates({.qp_type = QpType::xrc_send, .pd = rig.pd(), .send_cq = send, .xrcd = rig.xrcd}));
  EXPECT_FALSE(creates({.pd = rig.pd(), .send_cq = send, .recv_cq = recv, .srq = rig.first}));
  const auto srq = [&](roce::XrcDomain xrcd, roce::CompletionQueue* cq) {
    return rig.engine()
        .create_srq({.pd = rig.pd(), .attributes = {.max_wr = 1}, .xrcd = xrcd, .cq = cq})
        .has_value();
  };
  EXPECT_FALSE(srq(rig.xrcd, nullptr));
  EXPECT_FALSE(srq({}, recv));
  EXPECT_FALSE(srq(roce::XrcDomain{77}, recv));
}

}  // namespace
}  // namespace rockhopper::test::xrc_test
