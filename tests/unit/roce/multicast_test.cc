// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Multicast datagrams: a copy for each attached queue pair, and who may be attached.
#include <algorithm>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::multicast_test {
namespace {

using roce::DropReason;
using roce::PostResult;
using roce::QpState;
using roce::QpType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr std::uint32_t kGrh = 40;

ConnectionOptions ud(std::uint32_t qkey = 0x11111111) {
  return {.qp_type = QpType::ud, .qkey = qkey};
}

stack::IpAddress address(const char* text) { return stack::IpAddress::parse(text).value(); }

const stack::IpAddress kGroup = stack::IpAddress::from_ipv4(0xef810203);
const stack::IpAddress kOtherGroup = stack::IpAddress::from_ipv4(0xef810204);

Packet group_datagram(std::size_t length = 8, std::uint32_t qkey = 0x11111111) {
  Packet packet = datagram(Opcode::ud_send_only, pattern(length), qkey);
  packet.headers.bth.destination = wire::kMulticastQpn;
  return packet;
}

void post_recv(Rig& rig, roce::QueuePair& qp, std::uint64_t wr_id, std::size_t offset,
               std::uint32_t length = 256) {
  const roce::Sge sge{.addr = rig.va(offset), .length = length, .lkey = rig.key()};
  ASSERT_EQ(qp.post_recv({.wr_id = wr_id, .sg_list = {&sge, 1}}), PostResult::ok);
}

roce::QueuePair& add_qp(Rig& rig, const ConnectionOptions& options) {
  roce::QueuePair& qp = rig.make_qp(options);
  rig.bring_up(qp, options);
  return qp;
}

class Multicast : public ::testing::Test {
 protected:
  void attach(roce::QueuePair& qp, const stack::IpAddress& group = kGroup) {
    const auto attached = rig.engine().attach_multicast(qp, group);
    ASSERT_TRUE(attached.has_value()) << attached.error().message;
  }
  Rig rig{ud()};
};

TEST_F(Multicast, Clause10_5_EachAttachedQueuePairGetsACopy) {
  roce::QueuePair& second = add_qp(rig, ud());
  roce::QueuePair& bystander = add_qp(rig, ud());
  attach(rig.qp());
  attach(second);
  rig.post_recv(1, 256, 0);
  post_recv(rig, second, 2, 1000);
  post_recv(rig, bystander, 3, 2000);
  const Payload untouched = rig.memory_at(2000, 256);
  rig.inject(group_datagram(), {.destination = kGroup});
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, kGrh + 8), Received(2u, kGrh + 8)));
  EXPECT_EQ(rig.memory_at(kGrh, 8), pattern(8));
  EXPECT_EQ(rig.memory_at(1000 + kGrh, 8), pattern(8));
  EXPECT_EQ(rig.memory_at(1000 + 36, 4), (Payload{0xef, 0x81, 2, 3})) << "the group, in the GRH";
  EXPECT_EQ(rig.memory_at(2000, 256), untouched);
  EXPECT_EQ(rig.counters().rcvd_multicast_pkts.value(), 1u);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST_F(Multicast, Clause10_5_OverIpv6) {
  attach(rig.qp(), address("ff0e::1:2"));
  rig.post_recv(1, 256, 0);
  rig.inject(group_datagram(), {.as_ipv6 = true, .destination = address("ff0e::1:2")});
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, kGrh + 8)));
  rig.inject(group_datagram(), {.as_ipv6 = true, .destination = address("ff0e::1:3")});
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
}

TEST_F(Multicast, Clause9_6_EachCopyIsCheckedForItself) {
  roce::QueuePair& other_qkey = add_qp(rig, ud(0x22222222));
  roce::QueuePair& without_receive = add_qp(rig, ud());
  roce::QueuePair& not_ready = rig.make_qp(ud());
  roce::QueuePair& last = add_qp(rig, ud());
  for (roce::QueuePair* qp : {&other_qkey, &without_receive, &not_ready, &last, &rig.qp()}) {
    attach(*qp);
  }
  post_recv(rig, other_qkey, 2, 1000);
  const Payload untouched = rig.memory_at(1000, 256);
  post_recv(rig, last, 3, 2000);
  rig.post_recv(1, 256, 0);
  rig.inject(group_datagram(), {.destination = kGroup});
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(3u, kGrh + 8), Received(1u, kGrh + 8)));
  EXPECT_EQ(rig.drops(DropReason::bad_qkey), 1u);
  EXPECT_EQ(rig.drops(DropReason::no_receive), 1u);
  EXPECT_EQ(rig.drops(DropReason::bad_qp_state), 1u);
  EXPECT_EQ(rig.memory_at(1000, 256), untouched);
}

TEST_F(Multicast, WithoutAttachmentNothingIsTaken) {
  rig.post_recv(1, 256, 0);
  rig.inject(group_datagram(), {.destination = kGroup});
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  attach(rig.qp());
  rig.inject(group_datagram(), {.destination = kOtherGroup});
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  EXPECT_EQ(rig.counters().rcvd_pkts.value(), 0u) << "the host has not joined these groups";
}

TEST_F(Multicast, DetachedAndDestroyedQueuePairsGetNothing) {
  roce::QueuePair& second = add_qp(rig, ud());
  attach(rig.qp());
  attach(rig.qp());  // once more changes nothing
  attach(second);
  attach(second, kOtherGroup);
  ASSERT_TRUE(rig.engine().detach_multicast(rig.qp(), kGroup).has_value());
  EXPECT_FALSE(rig.engine().detach_multicast(rig.qp(), kGroup).has_value());
  rig.post_recv(1, 256, 0);
  post_recv(rig, second, 2, 1000);
  rig.inject(group_datagram(), {.destination = kGroup});
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(2u, kGrh + 8)));
  rig.engine().destroy_qp(&second);
  for (const stack::IpAddress& group : {kGroup, kOtherGroup}) {
    rig.inject(group_datagram(), {.destination = group});
  }
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  EXPECT_EQ(rig.counters().rcvd_pkts.value(), 1u) << "the host has left both groups";
}

TEST_F(Multicast, Clause9_2_7_TheNumberOfGroupsAndGroupsBelongTogether) {
  attach(rig.qp());
  rig.post_recv(1, 256, 0);
  rig.inject(group_datagram());
  EXPECT_EQ(rig.drops(DropReason::bad_address), 1u) << "0xFFFFFF at a station's address";
  rig.inject(datagram(Opcode::ud_send_only, pattern(8)), {.destination = kGroup});
  EXPECT_EQ(rig.drops(DropReason::bad_address), 2u) << "a queue pair's number at a group";
  EXPECT_THAT(rig.recv_completions(), IsEmpty());

  roce::AddressVector av = rig.address_vector(address("10.0.0.2"));
  av.destination = kGroup;
  roce::AddressHandle& to_group = rig.make_ah(av);
  roce::SendWr wr{.wr_id = 5, .ah = &to_group, .remote_qpn = wire::Qpn{7}};
  EXPECT_EQ(rig.post(wr), PostResult::invalid_request);
  wr.ah = rig.ah();
  wr.remote_qpn = wire::kMulticastQpn;
  EXPECT_EQ(rig.post(wr), PostResult::invalid_request);
}

TEST_F(Multicast, Clause9_6_OtherServicesTakeNoGroups) {
  for (const QpType type : {QpType::rc, QpType::uc}) {
    const ConnectionOptions options{.qp_type = type};
    roce::QueuePair& qp = rig.make_qp(options);
    const auto attached = rig.engine().attach_multicast(qp, kGroup);
    ASSERT_FALSE(attached.has_value());
    EXPECT_EQ(attached.error().code, ErrorCode::invalid_argument);
    roce::QpAttributes a = rig.attributes(options);
    a.ah_attr.destination = kGroup;
    EXPECT_FALSE(qp.bring_up(a, QpState::rtr).has_value()) << "a peer is a station";
  }
  attach(rig.qp());
  for (const Opcode opcode : {Opcode::rc_send_only, Opcode::uc_send_only}) {
    Packet foreign = datagram(opcode, pattern(8));
    foreign.headers.bth.destination = wire::kMulticastQpn;
    rig.inject(foreign, {.destination = kGroup});
  }
  EXPECT_EQ(rig.drops(DropReason::bad_service), 2u);
}

TEST_F(Multicast, AGroupNeedsNoNeighbourAndItsOwnMac) {
  for (const char* group : {"239.129.2.3", "ff0e::1:2"}) {
    roce::AddressVector av =
        rig.address_vector(address(group).is_ipv4() ? address("10.0.0.2") : Rig::peer_ipv6());
    av.destination = address(group);
    roce::AddressHandle& ah = rig.make_ah(av);
    ASSERT_EQ(
        rig.post(
            {.wr_id = 1, .ah = &ah, .remote_qpn = wire::kMulticastQpn, .remote_qkey = 0x11111111}),
        PostResult::ok);
    const auto sent = rig.sent();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].headers.bth.destination, wire::kMulticastQpn);
    const bool ipv4 = address(group).is_ipv4();
    const Payload to(sent[0].ip.end() - (ipv4 ? 4 : 16), sent[0].ip.end());
    EXPECT_TRUE(std::equal(to.rbegin(), to.rend(), av.destination.bytes.rbegin()));
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, roce::WcStatus::success)));
  }
}

TEST_F(Multicast, WhatIsNoGroupCannotBeAttachedTo) {
  for (const char* bad : {"10.0.0.2", "0.0.0.0", "::", "2001:db8::1"}) {
    EXPECT_FALSE(rig.engine().attach_multicast(rig.qp(), address(bad)).has_value()) << bad;
  }
  roce::QueuePair* gsi = rig.engine()
                             .create_gsi_qp({.qp_type = QpType::ud,
                                             .pd = rig.pd(),
                                             .send_cq = &rig.send_cq(),
                                             .recv_cq = &rig.recv_cq()})
                             .value();
  EXPECT_FALSE(rig.engine().attach_multicast(*gsi, kGroup).has_value());
}

TEST_F(Multicast, LimitsAreThoseOfTheDevice) {
  const roce::DeviceAttributes device = rig.engine().query_device();
  ASSERT_GT(device.max_mcast_grp, 0u);
  for (std::uint32_t i = 0; i < device.max_mcast_grp; ++i) {
    attach(rig.qp(), stack::IpAddress::from_ipv4(0xe1000000 + i));
  }
  const auto refused = rig.engine().attach_multicast(rig.qp(), kGroup);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::exhausted);
  for (std::uint32_t i = 1; i < device.max_mcast_qp_attach; ++i) {
    attach(rig.make_qp(ud()), stack::IpAddress::from_ipv4(0xe1000000));
  }
  EXPECT_FALSE(rig.engine()
                   .attach_multicast(rig.make_qp(ud()), stack::IpAddress::from_ipv4(0xe1000000))
                   .has_value());
  EXPECT_GE(device.max_total_mcast_qp_attach, device.max_mcast_qp_attach);
}

}  // namespace
}  // namespace rockhopper::test::multicast_test
