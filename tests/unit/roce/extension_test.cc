// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What an engine and a transport that stands on it do for each other. The transport here is the
// least that can be: what dynamic connections do with it is tested in tests/unit/dc.
#include "roce/extension.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "roce/extension_context.h"
#include "roce/rc/requester.h"
#include "roce/rc/responder.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test {
namespace {

using roce::DropReason;
using roce::PostResult;
using roce::QpState;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr wire::Qpn kNumber{0xd00001};
constexpr wire::Dcsh kSession{
    .form = 1, .stream = 3, .source = kNumber, .value = 0x0102030405060708};

class SessionHeader final : public roce::PacketPrefix {
 public:
  void add_to(wire::Headers& headers) const override { headers.dcsh = kSession; }
};

/// Notes what it gets, and hands it to its queue pair if it has one.
class TestExtension final : public roce::Extension {
 public:
  explicit TestExtension(Rig& rig) : rig_(rig), context_(rig.engine().attach_extension(*this)) {}
  ~TestExtension() override { rig_.engine().detach_extension(); }

  std::optional<DropReason> accept(const stack::UdpDatagram& datagram, const roce::RxPacket& packet,
                                   std::uint64_t now_ns) override {
    got.push_back(static_cast<Opcode>(packet.headers.bth.opcode));
    return qp != nullptr ? context_.deliver(*qp, datagram, packet, now_ns) : refusal;
  }
  bool has_packets() const override { return !own.empty(); }
  bool uses(roce::ProtectionDomain pd) const override { return pd == used; }
  roce::TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                std::uint64_t /*now_ns*/) override {
    roce::TransmitResult result;
    for (; result.count < count && !own.empty(); own.pop_back()) {
      packets[result.count++] = own.back();
    }
    return result;
  }

  /// An initiator in RTS with the rig's peer.
  void make_initiator() {
    roce::QpInit init;
    init.qp_type = roce::QpType::extension_initiator;
    init.pd = rig_.pd();
    init.send_cq = &rig_.send_cq();
    init.sq_sig_all = true;
    auto made = context_.create_qp(kNumber, init, [](roce::ExtensionQp& half) {
      return roce::Transport{.requester = std::make_unique<roce::rc::Requester>(half),
                             .responder = std::make_unique<roce::rc::Responder>(half),
                             .prefix = std::make_unique<SessionHeader>()};
    });
    ASSERT_TRUE(made);
    qp = *made;
    const roce::QpAttributes attributes = rig_.attributes({});
    qp->start(attributes);
    qp->redirect(attributes.ah_attr, attributes.dest_qp_num, attributes.path_mtu);
  }

  std::vector<Opcode> got;
  std::vector<rte_mbuf*> own;
  std::optional<DropReason> refusal;
  roce::ProtectionDomain used{};
  roce::ExtensionQp* qp = nullptr;

  [[nodiscard]] roce::ExtensionContext& context() { return context_; }

 private:
  Rig& rig_;
  roce::ExtensionContext& context_;
};

Packet to_extension(Opcode opcode, Payload payload = {}) {
  Packet result = packet(opcode, 0, std::move(payload));
  result.headers.bth.destination = kNumber;
  result.headers.dcsh = kSession;
  return result;
}

Packet cnp_to(wire::Qpn number) {
  Packet result = packet(Opcode::cnp, 0, {}, false);
  result.headers.bth.destination = number;
  result.headers.cnp_reserved = {};
  return result;
}

class ExtensionTest : public ::testing::Test {
 protected:
  PostResult send() {
    const std::array<roce::Sge, 1> list{{{.addr = rig_.va(), .length = 8, .lkey = rig_.key()}}};
    return extension_.qp->post_send(
        {.wr_id = 7, .sg_list = list, .opcode = WrOpcode::send, .send_flags = 0});
  }

  Rig rig_;
  TestExtension extension_{rig_};
};

TEST_F(ExtensionTest, GetsPacketsOfItsOpcodesWhateverTheirNumber) {
  rig_.inject(to_extension(Opcode::dc_send_only, pattern(8)));
  rig_.inject(to_extension(Opcode::dc_control, pattern(24)));
  Packet to_other = to_extension(Opcode::dc_acknowledge);
  to_other.headers.bth.destination = rig_.qp().number();
  to_other.headers.aeth = wire::Aeth::ack(wire::kCreditCodeUnlimited, 0);
  rig_.inject(to_other);
  EXPECT_THAT(extension_.got,
              ElementsAre(Opcode::dc_send_only, Opcode::dc_control, Opcode::dc_acknowledge));
}

TEST_F(ExtensionTest, GetsNoPacketsOfQueuePairs) {
  rig_.post_recv(1, 64);
  rig_.inject(packet(Opcode::rc_send_only, ConnectionOptions{}.rq_psn, pattern(8)));
  rig_.inject(cnp_to(rig_.qp().number()));
  EXPECT_THAT(extension_.got, IsEmpty());
  EXPECT_THAT(rig_.recv_completions(), ElementsAre(Received(1u, 8u)));
}

TEST_F(ExtensionTest, GetsNotificationsForNumbersThatNoQueuePairHas) {
  rig_.inject(cnp_to(kNumber));
  EXPECT_THAT(extension_.got, ElementsAre(Opcode::cnp));
}

TEST_F(ExtensionTest, WhatItRefusesIsCounted) {
  extension_.refusal = DropReason::dc_unknown_session;
  rig_.inject(to_extension(Opcode::dc_send_only, pattern(8)));
  EXPECT_EQ(rig_.drops(DropReason::dc_unknown_session), 1u);
}

TEST_F(ExtensionTest, WrongPacketsDoNotReachIt) {
  rig_.inject(to_extension(Opcode::dc_send_only, pattern(8)), {.icrc = true});
  EXPECT_THAT(extension_.got, IsEmpty());
  EXPECT_EQ(rig_.drops(DropReason::bad_icrc), 1u);
}

TEST_F(ExtensionTest, ItsOwnPacketsLeave) {
  EXPECT_THAT(rig_.sent(), IsEmpty());  // The rig's queue pairs have had their turn.
  EXPECT_GT(rig_.host().next_deadline_ns(), rig_.now_ns());
  Packet own = packet(Opcode::dc_control, 0, pattern(24), false);
  own.headers.bth.destination = wire::Qpn{Rig::kPeerQpn};
  extension_.own.push_back(rig_.build(own));
  EXPECT_LE(rig_.host().next_deadline_ns(), rig_.now_ns());
  EXPECT_THAT(rig_.sent(), ElementsAre(IsPacket(Opcode::dc_control, 0u)));
}

TEST_F(ExtensionTest, ProtectionDomainsThatItUsesAreBusy) {
  const roce::ProtectionDomain pd = rig_.engine().allocate_pd();
  extension_.used = pd;
  EXPECT_FALSE(rig_.engine().deallocate_pd(pd));
  extension_.used = {};
  EXPECT_TRUE(rig_.engine().deallocate_pd(pd));
}

TEST_F(ExtensionTest, QueuePairsHaveThePrefixInTheirPackets) {
  extension_.make_initiator();
  EXPECT_EQ(extension_.qp->state(), QpState::rts);
  ASSERT_EQ(send(), PostResult::ok);
  const auto sent = rig_.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::dc_send_only, 0u)));
  EXPECT_EQ(sent[0].headers.dcsh, kSession);
  EXPECT_EQ(sent[0].payload, rig_.memory_at(0, 8));
}

TEST_F(ExtensionTest, QueuePairsGetWhatIsDelivered) {
  extension_.make_initiator();
  ASSERT_EQ(send(), PostResult::ok);
  (void)rig_.sent();
  Packet answer = to_extension(Opcode::dc_acknowledge);
  answer.headers.aeth = wire::Aeth::ack(wire::kCreditCodeUnlimited, 1);
  rig_.inject(answer, {.source_address = true});
  EXPECT_EQ(rig_.drops(DropReason::bad_address), 1u);
  EXPECT_THAT(rig_.send_completions(), IsEmpty());
  rig_.inject(answer);
  EXPECT_THAT(rig_.send_completions(), ElementsAre(Completed(7u, WcStatus::success)));
}

TEST_F(ExtensionTest, InitiatorsTakeNoRequests) {
  extension_.make_initiator();
  rig_.inject(to_extension(Opcode::dc_send_only, pattern(8)));
  EXPECT_EQ(rig_.drops(DropReason::bad_service), 1u);
}

TEST_F(ExtensionTest, NoPacketFindsItsQueuePairsByNumber) {
  extension_.make_initiator();
  EXPECT_EQ(rig_.engine().find_qp(kNumber), nullptr);
  EXPECT_EQ(rig_.engine().qp_count(), 1u);
  extension_.context().destroy_qp(extension_.qp);
  extension_.qp = nullptr;
}

TEST(Extension, WithoutOneItsPacketsAreUnserved) {
  Rig rig;
  std::optional<TestExtension> gone(std::in_place, rig);
  gone.reset();
  rig.inject(to_extension(Opcode::dc_send_only, pattern(8)));
  rig.inject(cnp_to(kNumber));
  EXPECT_EQ(rig.drops(DropReason::unserved_opcode), 1u);
  EXPECT_EQ(rig.drops(DropReason::unknown_qp), 1u);
}

}  // namespace
}  // namespace rockhopper::test
