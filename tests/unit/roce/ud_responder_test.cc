// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Datagrams received: Q_Key, GRH, receive requests that fit and that do not.
#include <algorithm>
#include <cstring>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::ud_responder_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::QpType;
using roce::WcOpcode;
using roce::WcStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr std::uint32_t kGrh = 40;

ConnectionOptions ud() { return {.qp_type = QpType::ud}; }

/// The datagram is dropped for `reason` and the next one is taken.
void expect_dropped(Rig& rig, const Packet& packet, DropReason reason, const Damage& damage = {}) {
  rig.inject(packet, damage);
  EXPECT_EQ(rig.drops(reason), 1u) << to_string(reason);
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  rig.post_recv(99, 1024, 30000);
  rig.inject(datagram(Opcode::ud_send_only, pattern(8)));
  EXPECT_EQ(rig.recv_completions().size(), 1u);
}

TEST(UdResponder, Clause9_8_3_DatagramLandsBehindTheIpv4Header) {
  Rig rig(ud());
  rig.post_recv(1, 1024, 4096);
  Packet sent = datagram(Opcode::ud_send_only_with_immediate, pattern(100));
  sent.headers.imm_dt.data = 0xabc;
  rig.inject(sent);
  const auto done = rig.recv_completions();
  ASSERT_THAT(done, ElementsAre(Received(1u, kGrh + 100)));
  EXPECT_EQ(done[0].opcode, WcOpcode::recv);
  EXPECT_EQ(done[0].wc_flags, std::uint32_t{roce::kWcWithImm} | std::uint32_t{roce::kWcGrh});
  EXPECT_FALSE(done[0].is_ipv6);
  EXPECT_EQ(done[0].imm_data, 0xabcu);
  EXPECT_EQ(done[0].src_qp.value, Rig::kPeerQpn);
  EXPECT_EQ(done[0].qp_num, rig.qp().number());
  EXPECT_EQ(rig.memory_at(4096, 20), Payload(20)) << "no bytes of others before the header";
  const Payload ip = rig.memory_at(4096 + 20, 20);
  EXPECT_EQ(ip[0], 0x45);
  EXPECT_EQ(ip[9], 17);
  EXPECT_EQ(Payload(ip.begin() + 12, ip.end()), (Payload{10, 0, 0, 2, 10, 0, 0, 1}));
  EXPECT_EQ(rig.memory_at(4096 + kGrh, 100), pattern(100));
  EXPECT_TRUE(rig.untouched_outside(4096, kGrh + 100));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(UdResponder, Clause9_8_3_DatagramLandsBehindTheIpv6Header) {
  Rig rig(ud());
  rig.post_recv(1, 1024, 4096);
  rig.inject(datagram(Opcode::ud_send_only, pattern(7)), {.as_ipv6 = true});
  const auto done = rig.recv_completions();
  ASSERT_THAT(done, ElementsAre(Received(1u, kGrh + 7)));
  EXPECT_EQ(done[0].wc_flags, std::uint32_t{roce::kWcGrh});
  EXPECT_TRUE(done[0].is_ipv6);
  const Payload ip = rig.memory_at(4096, kGrh);
  EXPECT_EQ(ip[0] >> 4, 6);
  EXPECT_TRUE(std::equal(ip.begin() + 8, ip.begin() + 24, Rig::peer_ipv6().bytes.begin()));
  EXPECT_TRUE(std::equal(ip.begin() + 24, ip.end(), Rig::own_ipv6().bytes.begin()));
  EXPECT_EQ(rig.memory_at(4096 + kGrh, 7), pattern(7));
}

TEST(UdResponder, Clause9_6_WrongQkeyIsDropped) {
  for (const std::uint32_t flip : {0x00000001u, 0x00010000u, 0x80000000u, 0xffffffffu}) {
    Rig rig(ud());
    rig.post_recv(1, 1024);
    expect_dropped(rig, datagram(Opcode::ud_send_only, pattern(8), 0x11111111 ^ flip),
                   DropReason::bad_qkey);
  }
}

TEST(UdResponder, QkeyCanBeChanged) {
  Rig rig(ud());
  rig.post_recv(1, 1024);
  roce::QpAttributes a;
  a.qkey = 5;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpQkey).has_value());
  rig.inject(datagram(Opcode::ud_send_only, pattern(8)));
  EXPECT_EQ(rig.drops(DropReason::bad_qkey), 1u);
  rig.inject(datagram(Opcode::ud_send_only, pattern(8), 5));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, kGrh + 8)));
}

TEST(UdResponder, Clause9_8_3_AnybodyMaySendWithAnyPsn) {
  Rig rig(ud());
  for (std::uint64_t i = 0; i < 4; ++i) {
    rig.post_recv(i, 100, i * 100);
  }
  Packet sent = datagram(Opcode::ud_send_only, pattern(8));
  rig.inject(sent);
  rig.inject(sent);
  sent.headers.bth.psn = wire::Psn{1};
  sent.headers.deth.source = wire::Qpn{0x000777};
  rig.inject(sent, {.source_address = true});
  const auto done = rig.recv_completions();
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[2].src_qp.value, 0x777u);
  EXPECT_EQ(rig.memory_at(200 + 35, 1)[0], 9) << "the source that the packet had";
}

TEST(UdResponder, Clause9_8_3_NoReceive) {
  Rig rig(ud());
  expect_dropped(rig, datagram(Opcode::ud_send_only, pattern(8)), DropReason::no_receive);
}

/// Class D of the responder's errors: the receive request waits for a datagram that fits.
TEST(UdResponder, Clause9_9_3_ReceiveThatIsTooShortStays) {
  for (const std::uint32_t length : {0u, 20u, 39u, 40u, 47u}) {
    Rig rig(ud());
    rig.post_recv(1, length);
    rig.inject(datagram(Opcode::ud_send_only, pattern(8)));
    EXPECT_EQ(rig.drops(DropReason::short_receive), 1u);
    EXPECT_TRUE(rig.untouched_outside(0, 0));
    EXPECT_EQ(rig.qp().recv_queue_depth(), 1u);
    EXPECT_EQ(rig.qp().state(), QpState::rts);
    if (length >= kGrh) {
      rig.inject(datagram(Opcode::ud_send_only, pattern(length - kGrh)));
      EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, length)));
    }
  }
}

TEST(UdResponder, Clause9_8_3_NoLongerThanThePathMtu) {
  {
    Rig rig(ud());
    rig.post_recv(1, 8192, 8192);
    rig.inject(datagram(Opcode::ud_send_only, pattern(4096)));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, kGrh + 4096)));
  }
  Rig rig(ud());
  rig.post_recv(1, 8192, 8192);
  expect_dropped(rig, datagram(Opcode::ud_send_only, pattern(4100)), DropReason::bad_length);
}

TEST(UdResponder, GrhAndPayloadGoToTheirElements) {
  Rig rig(ud());
  const std::array<roce::Sge, 3> list{{{.addr = rig.va(0), .length = 30, .lkey = rig.key()},
                                       {.addr = rig.va(1000), .length = 12, .lkey = rig.key()},
                                       {.addr = rig.va(2000), .length = 50, .lkey = rig.key()}}};
  ASSERT_EQ(rig.qp().post_recv({.wr_id = 1, .sg_list = list}), roce::PostResult::ok);
  rig.inject(datagram(Opcode::ud_send_only, pattern(20)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, kGrh + 20)));
  const Payload all = pattern(20);
  EXPECT_EQ(rig.memory_at(20, 1)[0], 0x45);
  EXPECT_EQ(rig.memory_at(1006, 6), (Payload{10, 0, 0, 1, all[0], all[1]}));
  EXPECT_EQ(rig.memory_at(2000, 18), Payload(all.begin() + 2, all.end()));
}

TEST(UdResponder, Clause9_9_3_ReceiveIntoMemoryThatCannotBeUsedIsALocalError) {
  for (const std::uint32_t length : {8u, 64u}) {
    Rig rig(ud());
    const auto region = rig.add_region(0, 64, 0);
    const std::array<roce::Sge, 2> list{{{.addr = rig.va(), .length = length, .lkey = region.key},
                                         {.addr = rig.va(), .length = 64, .lkey = region.key}}};
    ASSERT_EQ(rig.qp().post_recv({.wr_id = 1, .sg_list = list}), roce::PostResult::ok);
    rig.inject(datagram(Opcode::ud_send_only, pattern(8)));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::loc_prot_err)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
    EXPECT_EQ(rig.drops(DropReason::bad_receive), 1u);
    EXPECT_TRUE(rig.untouched_outside(0, 0));
  }
}

TEST(UdResponder, Clause9_6_DamagedAndForeignPackets) {
  const Packet good = datagram(Opcode::ud_send_only, pattern(8));
  for (const auto& [damage, reason] :
       {std::pair{Damage{.icrc = true}, DropReason::bad_icrc},
        std::pair{Damage{.pkey = std::uint16_t{0x8001}}, DropReason::bad_pkey}}) {
    Rig rig(ud());
    rig.post_recv(1, 1024);
    expect_dropped(rig, good, reason, damage);
  }
  for (const Opcode opcode :
       {Opcode::rc_send_only, Opcode::uc_send_only, Opcode::rc_acknowledge, Opcode::rd_send_only}) {
    Rig rig(ud());
    rig.post_recv(1, 1024);
    const bool empty = !wire::info(opcode).has_payload;
    expect_dropped(rig, datagram(opcode, empty ? Payload{} : pattern(8)), DropReason::bad_service);
  }
}

TEST(UdResponder, Clause10_3_1_StatesThatReceive) {
  for (const auto& [state, receives] :
       {std::pair{QpState::init, false}, std::pair{QpState::rtr, true},
        std::pair{QpState::rts, true}, std::pair{QpState::sqd, true}, std::pair{QpState::sqe, true},
        std::pair{QpState::err, false}}) {
    Rig rig({.qp_type = QpType::ud, .state = state});
    rig.post_recv(1, 1024);
    (void)rig.recv_completions();
    rig.inject(datagram(Opcode::ud_send_only, pattern(8)));
    EXPECT_EQ(rig.recv_completions().size(), receives ? 1u : 0u) << to_string(state);
    EXPECT_EQ(rig.drops(DropReason::bad_qp_state), receives ? 0u : 1u) << to_string(state);
    EXPECT_THAT(rig.async_events(), IsEmpty()) << "communication is not established";
  }
}

}  // namespace
}  // namespace rockhopper::test::ud_responder_test
