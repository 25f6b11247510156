// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/segment_link.h"

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_ip.h>
#include <rte_pause.h>
#include <rte_udp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stack/clock.h"
#include "stack/descriptor.h"
#include "stack/mbuf_read.h"
#include "stack/plain_pool.h"
#include "stack/random.h"
#include "stack/time_units.h"
#include "tests/support/affinity.h"
#include "tests/support/child_process.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::segment {
namespace {

using test::Bytes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kOpcodeAt =
    sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr);
constexpr std::size_t kQpnAt = kOpcodeAt + 5;

/// A RoCEv2 frame to that queue pair.
Bytes frame_to(std::uint32_t qpn, const Bytes& payload = Bytes(16)) {
  Bytes frame = test::roce_frame(4, 0, payload);
  frame[kQpnAt] = static_cast<std::uint8_t>(qpn >> 16);
  frame[kQpnAt + 1] = static_cast<std::uint8_t>(qpn >> 8);
  frame[kQpnAt + 2] = static_cast<std::uint8_t>(qpn);
  return frame;
}

Bytes frame_to_group() {
  Bytes frame = frame_to(0xffffff);
  frame[0] = 0x01;
  return frame;
}

/// A process of the segment, but in this one. Its queue pair has the number 100 + its index.
class Member {
 public:
  Member(const std::string& directory, std::uint32_t index, std::uint32_t mbufs,
         FindReceiver find_receiver = nullptr, AddIcrc add_icrc = nullptr)
      : pool_(std::move(*PlainPool::create({.size = mbufs, .data_room = 4400}))),
        membership_(std::move(*Membership::join(directory))),
        link_({.membership = membership_.get(),
               .pool = pool_->get(),
               .find_receiver = find_receiver,
               .add_icrc = add_icrc}),
        number_(100 + index) {
    EXPECT_TRUE(membership_->claim(static_cast<std::uint16_t>(number_)));
  }

  /// How many of the frames the link took; the others are freed.
  std::uint16_t send(const std::vector<Bytes>& frames, std::uint64_t now_ns = 0) {
    std::vector<rte_mbuf*> packets;
    for (const Bytes& frame : frames) {
      packets.push_back(test::make_packet(pool_->get(), frame));
      packets.back()->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
    }
    const auto count = static_cast<std::uint16_t>(packets.size());
    const std::uint16_t taken = link_.tx_burst(packets.data(), count, now_ns);
    rte_pktmbuf_free_bulk(packets.data() + taken, count - taken);
    return taken;
  }
  std::vector<Bytes> receive(std::uint64_t now_ns = 0) {
    std::array<rte_mbuf*, 32> packets{};
    const std::uint16_t count = link_.rx_burst(packets.data(), packets.size(), now_ns);
    std::vector<Bytes> frames;
    for (std::uint16_t i = 0; i < count; ++i) {
      EXPECT_EQ(packets[i]->ol_flags, 0u) << "requests to the sender's device";
      frames.push_back(test::bytes_of(packets[i]));
      rte_pktmbuf_free(packets[i]);
    }
    return frames;
  }

  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] PlainPool& pool() { return *pool_; }
  [[nodiscard]] Membership& membership() { return *membership_; }
  [[nodiscard]] SegmentLink& link() { return link_; }
  [[nodiscard]] const SegmentCounters& counters() const { return link_.counters(); }

 private:
  std::unique_ptr<PlainPool> pool_;
  std::unique_ptr<Membership> membership_;
  SegmentLink link_;
  std::uint32_t number_;
};

class SegmentLinkTest : public ::testing::Test {
 protected:
  std::unique_ptr<Member> join(std::uint32_t mbufs = 128) {
    return std::make_unique<Member>(directory_.path(), members_++, mbufs);
  }

  test::TemporaryDirectory directory_;
  std::uint32_t members_ = 0;
};

/// The last byte of a frame is the slot, and 0xff is nobody's.
std::optional<std::uint16_t> slot_in_last_byte(const rte_mbuf* frame,
                                               const Membership& /*members*/) {
  const auto slot = read_at<std::uint8_t>(frame, frame->pkt_len - 1);
  if (!slot || *slot == 0xff) return std::nullopt;
  return *slot;
}

void put_a_seven_last(rte_mbuf* packet) {
  packet->ol_flags &= ~kWithoutIcrc;
  *rte_pktmbuf_mtod_offset(packet, std::uint8_t*, packet->data_len - 1) = 7;
}

TEST_F(SegmentLinkTest, FramesArriveWithoutTheIcrcThatTheirSenderHasLeftOut) {
  const auto a = join();
  const auto b = join();
  const Bytes frame = frame_to(b->number());
  std::array packets{test::make_packet(a->pool().get(), frame),
                     test::make_packet(a->pool().get(), frame)};
  packets[1]->ol_flags |= kWithoutIcrc;
  ASSERT_EQ(a->link().tx_burst(packets.data(), 2, 0), 2);
  ASSERT_EQ(b->link().rx_burst(packets.data(), 2, 0), 2);
  EXPECT_FALSE(is_without_icrc(packets[0]));
  EXPECT_TRUE(is_without_icrc(packets[1]));
  EXPECT_EQ(test::bytes_of(packets[1]), frame);
  EXPECT_EQ(b->counters().rx_without_icrc.value(), 1u);
  rte_pktmbuf_free_bulk(packets.data(), 2);
}

TEST_F(SegmentLinkTest, FramesToOneselfStayWithoutTheirIcrc) {
  const auto a = join();
  rte_mbuf* packet = test::make_packet(a->pool().get(), frame_to(a->number()));
  packet->ol_flags |= kWithoutIcrc | RTE_MBUF_F_TX_IP_CKSUM;
  ASSERT_EQ(a->link().tx_burst(&packet, 1, 0), 1);
  ASSERT_EQ(a->link().rx_burst(&packet, 1, 0), 1);
  EXPECT_EQ(packet->ol_flags, kWithoutIcrc);
  rte_pktmbuf_free(packet);
}

TEST_F(SegmentLinkTest, WhoLooksAtFramesGetsTheIcrcThatWasLeftOut) {
  const auto a = join();
  Member b(directory_.path(), 9, 128, nullptr, &put_a_seven_last);
  Bytes frame = frame_to(b.number());
  std::array packets{test::make_packet(a->pool().get(), frame),
                     test::make_packet(a->pool().get(), frame)};
  packets[1]->ol_flags |= kWithoutIcrc;
  ASSERT_EQ(a->link().tx_burst(packets.data(), 2, 0), 2);
  ASSERT_EQ(b.link().rx_burst(packets.data(), 2, 0), 2);
  EXPECT_EQ(test::bytes_of(packets[0]), frame);
  frame.back() = 7;
  EXPECT_EQ(test::bytes_of(packets[1]), frame);
  EXPECT_FALSE(is_without_icrc(packets[1]));
  rte_pktmbuf_free_bulk(packets.data(), 2);
}

TEST_F(SegmentLinkTest, TheSharedNumbersFramesGoWhereTheyAreSaidToGo) {
  Member a(directory_.path(), 0, 128, &slot_in_last_byte);
  Member b(directory_.path(), 1, 128, &slot_in_last_byte);
  const auto to = [](std::uint16_t slot) {
    Bytes frame = frame_to(kSharedNumber);
    frame.back() = static_cast<std::uint8_t>(slot);
    return frame;
  };
  const std::uint16_t slot = b.membership().slot();
  EXPECT_EQ(a.send({to(slot), to(0xff), to(0xfe), to(77), to(a.membership().slot())}), 5);
  EXPECT_THAT(b.receive(), ElementsAre(to(slot)));
  EXPECT_THAT(a.receive(), ElementsAre(to(0xff), to(0xfe), to(a.membership().slot())))
      << "what is nobody's, or no slot, comes back";
  EXPECT_EQ(a.counters().tx_no_owner.value(), 1u) << "a slot that is not in use";
}

/// The test's service has the name 7, and all frames are for it.
std::optional<std::uint16_t> server_of_seven(const rte_mbuf* /*frame*/, const Membership& members) {
  return members.server_of(7).value_or(kNobodyYet);
}

TEST_F(SegmentLinkTest, RequestsWaitForTheirServer) {
  Member a(directory_.path(), 0, 128, &server_of_seven);
  Member b(directory_.path(), 1, 128, &server_of_seven);
  const Bytes first = frame_to(kSharedNumber, Bytes(20, 1));
  const Bytes second = frame_to(kSharedNumber, Bytes(20, 2));
  EXPECT_EQ(a.send({first, second}, 5), 2);
  EXPECT_EQ(a.counters().tx_awaited.value(), 2u);
  EXPECT_THAT(a.receive(6), IsEmpty());
  EXPECT_EQ(a.link().next_deadline_ns(), 5 + kNsPerMs);
  EXPECT_TRUE(b.membership().serve(7));
  EXPECT_THAT(a.receive(5 + kNsPerMs), IsEmpty());
  EXPECT_THAT(b.receive(), ElementsAre(first, second));
  EXPECT_EQ(a.link().next_deadline_ns(), kNever);
  b.membership().stop_serving(7);
  EXPECT_EQ(a.send({second}, 10 * kNsPerMs), 1);
  EXPECT_TRUE(a.membership().serve(7));
  EXPECT_EQ(a.send({frame_to(b.number())}, 20 * kNsPerMs), 1) << "to send is to look, too";
  EXPECT_THAT(a.receive(20 * kNsPerMs), ElementsAre(second));
  EXPECT_THAT(b.receive(), SizeIs(1));
  EXPECT_EQ(a.pool().in_use(), 0u);
}

TEST_F(SegmentLinkTest, RequestsThatNobodyServesComeBack) {
  Member a(directory_.path(), 0, 128, &server_of_seven);
  const Bytes frame = frame_to(kSharedNumber);
  EXPECT_EQ(a.send({frame}, 0), 1);
  EXPECT_THAT(a.receive(kPatienceNs - 1), IsEmpty());
  EXPECT_EQ(a.link().next_deadline_ns(), kPatienceNs - 1 + kNsPerMs);
  EXPECT_THAT(a.receive(kPatienceNs + kNsPerMs), ElementsAre(frame));
  EXPECT_EQ(a.pool().in_use(), 0u);
}

TEST_F(SegmentLinkTest, OnlySoManyRequestsWait) {
  Member a(directory_.path(), 0, 128, &server_of_seven);
  EXPECT_EQ(a.send(std::vector<Bytes>(70, frame_to(kSharedNumber)), 0), 70);
  EXPECT_EQ(a.counters().tx_awaited.value(), 64u);
  EXPECT_THAT(a.receive(0), SizeIs(6));
  EXPECT_EQ(a.pool().in_use(), 64u) << "the link frees these when it ends";
}

TEST_F(SegmentLinkTest, WithoutAnybodyToSayTheSharedNumberIsAsAnyOther) {
  const auto a = join();
  const auto b = join();
  EXPECT_EQ(a->send({frame_to(kSharedNumber)}), 1);
  EXPECT_EQ(a->counters().tx_no_owner.value(), 1u);
  EXPECT_TRUE(b->membership().claim(kSharedNumber));
  EXPECT_EQ(a->send({frame_to(kSharedNumber)}), 1);
  EXPECT_THAT(b->receive(), SizeIs(1));
}

TEST_F(SegmentLinkTest, FramesFindTheirQueuePair) {
  const auto a = join();
  const auto b = join();
  const auto c = join();
  const Bytes to_b = frame_to(b->number(), Bytes(4000, 1));
  const Bytes to_c = frame_to(c->number() | 0xab0000, Bytes(20, 2));
  EXPECT_EQ(a->send({to_b, to_c, to_b}), 3);
  EXPECT_EQ(c->send({frame_to(a->number()), to_b}), 2);
  EXPECT_THAT(c->receive(), ElementsAre(to_c)) << "the upper bits of a number are the engine's";
  EXPECT_THAT(b->receive(), SizeIs(3));
  EXPECT_THAT(a->receive(), ElementsAre(frame_to(a->number())));
  EXPECT_THAT(b->receive(), IsEmpty());
  EXPECT_EQ(a->counters().tx_frames.value(), 3u);
  EXPECT_EQ(b->counters().rx_frames.value(), 3u);
  EXPECT_EQ(a->pool().in_use(), 0u);
}

TEST_F(SegmentLinkTest, OwnQueuePairsAreReachedToo) {
  const auto a = join();
  const Bytes frame = frame_to(a->number(), Bytes(100, 3));
  EXPECT_EQ(a->link().next_deadline_ns(), kNever);
  EXPECT_EQ(a->send({frame, frame}), 2);
  EXPECT_EQ(a->link().next_deadline_ns(), 0u) << "somebody has to receive them";
  EXPECT_THAT(a->receive(), ElementsAre(frame, frame));
  EXPECT_EQ(a->counters().looped.value(), 2u);
  EXPECT_EQ(a->send(std::vector<Bytes>(100, frame)), 28) << "copies, as the pool has 128 mbufs";
}

TEST_F(SegmentLinkTest, GroupsReachAllMembersAndTheSender) {
  const auto a = join();
  const auto b = join();
  const auto c = join();
  EXPECT_EQ(a->send({frame_to_group()}), 1);
  for (Member* member : {a.get(), b.get(), c.get()}) {
    EXPECT_THAT(member->receive(), ElementsAre(frame_to_group()));
  }
}

TEST_F(SegmentLinkTest, WhatIsForNobodyIsDroppedAndCounted) {
  const auto a = join();
  Bytes arp(60);
  arp[0] = 0xff;
  EXPECT_EQ(a->send({frame_to(9999), arp, frame_to(a->number())}), 3);
  EXPECT_EQ(a->counters().tx_no_owner.value(), 1u);
  EXPECT_EQ(a->counters().tx_not_roce.value(), 1u);
  EXPECT_THAT(a->receive(), SizeIs(1));
}

constexpr std::uint64_t kBegin = 5 * kNsPerSecond;
constexpr std::uint8_t kUcSendOnly = 0x24;
constexpr std::uint8_t kRcSendOnly = 0x04;

Bytes large_frame_to(const Member& member, std::uint8_t opcode, std::uint8_t mark = 0) {
  Bytes frame = frame_to(member.number(), Bytes(4096, mark));
  frame[kOpcodeAt] = opcode;
  return frame;
}

TEST_F(SegmentLinkTest, FullLaneHoldsFramesAndLetsOthersPass) {
  const auto a = join();
  const auto slow = join();
  const auto c = join();
  std::uint8_t sent = 0;
  while (a->counters().tx_held.value() < 3) {
    ASSERT_EQ(a->send({large_frame_to(*slow, kUcSendOnly, sent++)}, kBegin), 1);
  }
  EXPECT_EQ(a->pool().in_use(), 3u);
  EXPECT_EQ(a->send({frame_to(c->number())}, kBegin), 1);
  EXPECT_THAT(c->receive(), SizeIs(1)) << "what waits for one is not in the way of another";
  EXPECT_TRUE(a->link().holds_frames());
  EXPECT_GT(a->link().next_deadline_ns(), kBegin);
  EXPECT_LE(a->link().next_deadline_ns(), kBegin + kNsPerMs);
  std::vector<Bytes> received;
  while (received.size() < sent) {
    const auto frames = slow->receive();
    ASSERT_THAT(frames, ::testing::Not(IsEmpty()));
    received.insert(received.end(), frames.begin(), frames.end());
    EXPECT_THAT(a->receive(), IsEmpty()) << "which puts what is held";
  }
  for (std::uint8_t i = 0; i < sent; ++i) {
    EXPECT_EQ(received[i], large_frame_to(*slow, kUcSendOnly, i)) << "in order";
  }
  EXPECT_FALSE(a->link().holds_frames());
  EXPECT_EQ(a->link().next_deadline_ns(), kNever);
  EXPECT_EQ(a->counters().tx_lane_full.value(), 0u);
  EXPECT_EQ(a->pool().in_use(), 0u);
}

TEST_F(SegmentLinkTest, SlowMemberLosesNothing) {
  const auto a = join();
  const auto slow = join();
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  // Full all the time, and emptied rarely enough.
  for (std::uint64_t now_ns = kBegin; now_ns < kBegin + 20 * kNsPerSecond; now_ns += kLookNs) {
    while (a->send({large_frame_to(*slow, kUcSendOnly)}, now_ns) == 1) {
      ++sent;
    }
    if (now_ns % (kStalledNs - kLookNs) < kLookNs) received += slow->receive().size();
  }
  for (std::size_t more = 1; more > 0; received += more) {
    (void)a->receive();
    more = slow->receive().size();
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(a->counters().tx_lane_full.value(), 0u);
}

TEST_F(SegmentLinkTest, MemberThatStandsStillIsWaitedForOnce) {
  const auto a = join();
  const auto still = join();
  const auto c = join();
  const Bytes large = large_frame_to(*still, kUcSendOnly);
  while (a->send({large}, kBegin) == 1) {
  }
  EXPECT_EQ(a->pool().in_use(), 16u) << "an eighth of the pool";
  std::uint64_t now_ns = kBegin;
  for (; now_ns < kBegin + kStalledNs; now_ns += kLookNs) {
    EXPECT_EQ(a->send({large, frame_to(c->number())}, now_ns), 0) << "there is hope";
  }
  EXPECT_EQ(a->counters().tx_lane_full.value(), 0u);
  EXPECT_EQ(a->send({large, frame_to(c->number()), large}, now_ns), 3);
  EXPECT_EQ(a->counters().tx_lane_full.value(), 18u) << "what was held too";
  EXPECT_EQ(a->pool().in_use(), 0u);
  EXPECT_FALSE(a->link().holds_frames());
  EXPECT_THAT(c->receive(), SizeIs(1));
  EXPECT_EQ(a->send({large}, now_ns + kNsPerSecond), 1);
  EXPECT_EQ(a->counters().tx_lane_full.value(), 19u) << "without waiting again";
  // Once it takes frames out again, it is waited for again.
  EXPECT_THAT(still->receive(), ::testing::Not(IsEmpty()));
  while (a->send({large}, now_ns + 2 * kNsPerSecond) == 1) {
  }
  EXPECT_EQ(a->counters().tx_lane_full.value(), 19u);
}

TEST_F(SegmentLinkTest, PauseOfTheSenderIsNoFaultOfTheReceiver) {
  const auto a = join();
  const auto b = join();
  const Bytes large = large_frame_to(*b, kUcSendOnly);
  while (a->send({large}, kBegin) == 1) {
  }
  EXPECT_EQ(a->send({large}, kBegin + 10 * kNsPerSecond), 0);
  EXPECT_EQ(a->counters().tx_lane_full.value(), 0u);
}

TEST_F(SegmentLinkTest, WhatIsRepeatedAnywayStopsOthersForLess) {
  const auto a = join();
  const auto still = join();
  const Bytes large = large_frame_to(*still, kRcSendOnly);
  while (a->send({large}, kBegin) == 1) {
  }
  EXPECT_EQ(a->send({large}, kBegin + 100 * kNsPerMs - 1), 0);
  EXPECT_EQ(a->send({large}, kBegin + 100 * kNsPerMs), 1);
  EXPECT_EQ(a->counters().tx_lane_full.value(), 1u);
  EXPECT_EQ(a->pool().in_use(), 16u) << "what is held stays";
}

TEST_F(SegmentLinkTest, AllMembersTogetherHoldAQuarterOfThePool) {
  const auto a = join();
  std::vector<std::unique_ptr<Member>> still;
  for (int i = 0; i < 4; ++i) {
    still.push_back(join());
    while (a->send({large_frame_to(*still.back(), kUcSendOnly)}, kBegin) == 1) {
    }
  }
  EXPECT_EQ(a->pool().in_use(), 32u);
}

TEST_F(SegmentLinkTest, GroupsWaitForSlowMembersToo) {
  const auto a = join();
  const auto b = join();
  const auto slow = join();
  Bytes frame = frame_to(0xffffff, Bytes(4096));
  frame[0] = 0x01;
  std::size_t sent = 0;
  std::size_t received = 0;
  while (sent < 1000 && a->send({frame}, kBegin) == 1) {
    ++sent;
    EXPECT_THAT(a->receive(), SizeIs(1));
    received += b->receive().size();
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(a->pool().in_use(), 16u);
  std::size_t late = 0;
  for (std::size_t more = 1; more > 0; late += more) {
    (void)a->receive();
    more = slow->receive().size();
  }
  EXPECT_EQ(late, sent);
  EXPECT_EQ(a->pool().in_use(), 0u);
}

TEST_F(SegmentLinkTest, WhatIsHeldForAMemberThatLeftIsFreed) {
  const auto a = join();
  auto b = join();
  while (a->counters().tx_held.value() == 0) {
    ASSERT_EQ(a->send({large_frame_to(*b, kUcSendOnly)}, kBegin), 1);
  }
  b.reset();
  EXPECT_THAT(a->receive(), IsEmpty());
  EXPECT_EQ(a->counters().tx_no_owner.value(), 1u);
  EXPECT_FALSE(a->link().holds_frames());
  EXPECT_EQ(a->pool().in_use(), 0u);
}

TEST_F(SegmentLinkTest, MemberThatLeftAndOneThatCameInItsPlace) {
  const auto a = join();
  auto b = join();
  const std::uint32_t number = b->number();
  EXPECT_EQ(a->send({frame_to(number)}), 1);
  const std::uint16_t slot = b->membership().slot();
  b.reset();
  EXPECT_EQ(a->send({frame_to(number)}), 1);
  EXPECT_EQ(a->counters().tx_no_owner.value(), 1u);
  const auto next = join();
  ASSERT_EQ(next->membership().slot(), slot);
  EXPECT_EQ(a->send({frame_to(next->number(), Bytes(30, 4))}), 1);
  EXPECT_THAT(next->receive(), ElementsAre(frame_to(next->number(), Bytes(30, 4))))
      << "and nothing of what was for the other";
}

TEST_F(SegmentLinkTest, SenderThatCameInAnothersPlaceUsesItsLane) {
  const auto a = join();
  for (std::uint8_t i = 0; i < 20; ++i) {
    const auto sender = join();
    EXPECT_EQ(sender->send({frame_to(a->number(), Bytes(10, i))}), 1);
    EXPECT_THAT(a->receive(), ElementsAre(frame_to(a->number(), Bytes(10, i))));
  }
}

TEST_F(SegmentLinkTest, LongerThanTheReceiversMtu) {
  const auto a = join();
  const auto b = join();
  EXPECT_EQ(a->send({frame_to(b->number(), Bytes(4300)), frame_to(b->number())}), 2);
  EXPECT_THAT(b->receive(), SizeIs(1));
  EXPECT_EQ(b->counters().rx_too_long.value(), 1u);
}

TEST_F(SegmentLinkTest, FramesWaitWhileThereIsNoMbuf) {
  const auto a = join();
  const auto b = join(4);
  const Bytes frame = frame_to(b->number());
  std::array<rte_mbuf*, 4> taken{};
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(b->pool().get(), taken.data(), 4), 0);
  EXPECT_EQ(a->send({frame, frame}), 2);
  EXPECT_THAT(b->receive(), IsEmpty());
  EXPECT_EQ(b->counters().rx_no_mbuf.value(), 1u);
  rte_pktmbuf_free_bulk(taken.data(), 4);
  EXPECT_THAT(b->receive(), ElementsAre(frame, frame));
}

TEST_F(SegmentLinkTest, DamagedLaneIsEmptiedAndCounted) {
  const auto a = join();
  const auto b = join();
  EXPECT_EQ(a->send({frame_to(b->number())}), 1);
  Lane& lane = b->membership().lane_from(a->membership().slot());
  lane.put.store(lane.put.load() + 2 * Lane::kBytes);
  EXPECT_THAT(b->receive(), IsEmpty());
  EXPECT_EQ(b->counters().rx_damaged.value(), 1u);
}

TEST_F(SegmentLinkTest, SenderThatOnlySaysItIsOne) {
  const auto a = join();
  a->membership().own_slot().senders[0].store(UINT64_MAX);
  a->membership().own_slot().senders[1].store(UINT64_MAX);
  EXPECT_THAT(a->receive(), IsEmpty());
}

TEST_F(SegmentLinkTest, EachSenderHasItsTurn) {
  const auto a = join(512);
  std::vector<std::unique_ptr<Member>> senders;
  for (int i = 0; i < 3; ++i) {
    senders.push_back(join());
    EXPECT_EQ(senders.back()->send(std::vector<Bytes>(
                  64, frame_to(a->number(), Bytes(1, static_cast<std::uint8_t>(i))))),
              64);
  }
  std::array<int, 3> first{};
  for (int burst = 0; burst < 3; ++burst) {
    const auto frames = a->receive();
    ASSERT_THAT(frames, SizeIs(32));
    ++first.at(frames[0][kQpnAt + 7]);
  }
  EXPECT_THAT(first, ElementsAre(1, 1, 1));
}

TEST_F(SegmentLinkTest, SixteenMembersInSixtyFourMegabytes) {
  std::vector<std::unique_ptr<Member>> members;
  for (int i = 0; i < 16; ++i) {
    members.push_back(join(256));
  }
  for (const auto& from : members) {
    for (const auto& to : members) {
      EXPECT_EQ(from->send({frame_to(to->number())}), 1);
    }
  }
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory_.path())) {
    struct stat status = {};
    ASSERT_EQ(stat(file.path().c_str(), &status), 0);
    bytes += static_cast<std::uintmax_t>(status.st_blocks) * 512;
  }
  for (const auto& to : members) {
    EXPECT_THAT(to->receive(), SizeIs(16));
  }
  EXPECT_LT(bytes, 40u << 20);
}

TEST_F(SegmentLinkTest, DoesNotSleepWhileAFrameWaits) {
  const auto a = join();
  const auto b = join();
  EXPECT_TRUE(b->link().arm().has_value());
  EXPECT_EQ(a->send({frame_to(b->number())}), 1);
  EXPECT_FALSE(b->link().arm().has_value()) << "from a sender that is not known yet";
  EXPECT_THAT(b->receive(), SizeIs(1));
  EXPECT_EQ(a->send({frame_to(b->number())}), 1);
  EXPECT_FALSE(b->link().arm().has_value()) << "from one that is";
}

/// Two threads take turns, each asleep until the other has sent. `polls`: in between each says that
/// it will not sleep.
class Sleepers : public SegmentLinkTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(SegmentLink, Sleepers, ::testing::Bool(), [](const auto& polls) {
  return polls.param ? "WhoPollInBetween" : "WhoSleepAgain";
});

TEST_P(Sleepers, AreWokenByFrames) {
  constexpr int kRounds = 5'000;
  const bool polls = GetParam();
  const auto a = join();
  const auto b = join();
  const auto play = [polls](Member& own, Member& other, bool begins) {
    // A long frame is on its way for a while.
    const std::vector<Bytes> frames{frame_to(other.number(), Bytes(4000))};
    Random random(test::seed() + (begins ? 1 : 0));
    // Now a frame comes before the other one sleeps, now after it, and now meanwhile.
    const auto dawdle = [&random] {
      for (std::uint64_t pauses = random.below(100); pauses > 0; --pauses) {
        rte_pause();
      }
    };
    for (int i = 0; i < kRounds; ++i) {
      dawdle();
      if (begins) (void)own.send(frames);
      while (own.receive().empty()) {
        dawdle();
        // Nobody sleeps for so long but who was not woken.
        const std::uint64_t end_ns = TscClock().now_ns() + 10 * kNsPerSecond;
        if (const auto armed = own.link().arm()) own.link().sleep(*armed, end_ns);
        ASSERT_LT(TscClock().now_ns(), end_ns) << "round " << i;
      }
      if (polls) own.link().stay_awake();
      if (!begins) (void)own.send(frames);
    }
  };
  std::thread thread([&] {
    const test::OnProcessor second(1);
    play(*b, *a, false);
  });
  const test::OnProcessor first(0);
  play(*a, *b, true);
  thread.join();
  EXPECT_EQ(a->counters().rx_frames.value(), std::uint64_t{kRounds});
}

TEST_F(SegmentLinkTest, SaysWhetherItSleeps) {
  const auto a = join();
  const auto b = join();
  const auto& sleep = b->membership().own_slot().sleep;
  EXPECT_EQ(sleep.load(), kPolls);
  ASSERT_TRUE(b->link().arm().has_value());
  EXPECT_EQ(sleep.load(), kSleeps);
  EXPECT_EQ(a->send({frame_to(b->number())}), 1);
  EXPECT_EQ(sleep.load(), kMaySleep);
  EXPECT_EQ(a->counters().wake_ups.value(), 1u);
  b->link().stay_awake();
  EXPECT_EQ(sleep.load(), kPolls);
  b->link().wake();
  EXPECT_EQ(sleep.load(), kPolls);
}

TEST_F(SegmentLinkTest, SleepEndsByItselfAndByWake) {
  const auto a = join();
  const auto armed = a->link().arm();
  ASSERT_TRUE(armed.has_value());
  a->link().sleep(*armed, TscClock().now_ns() + kNsPerMs);
  const auto again = a->link().arm();
  ASSERT_TRUE(again.has_value());
  std::thread thread([&] { a->link().wake(); });
  a->link().sleep(*again, kNever);
  thread.join();
}

TEST_F(SegmentLinkTest, RandomWritesIntoTheTableHarmNobody) {
  const auto a = join();
  const auto b = join();
  const Descriptor file(open((directory_.path() + "/table").c_str(), O_RDWR | O_CLOEXEC));
  Random random(test::seed());
  for (int i = 0; i < 20'000; ++i) {
    // Mostly where something stands that the two use.
    const std::uint64_t at =
        random.below(4) == 0 ? random.below(sizeof(Table) - 8) : random.below(3 * sizeof(Slot));
    const Bytes garbage = test::random_bytes(random, 1 + random.below(8));
    ASSERT_GT(pwrite(file.fd(), garbage.data(), garbage.size(), static_cast<off_t>(at)), 0);
    (void)a->send({frame_to(b->number()), frame_to(a->number()), frame_to_group()},
                  static_cast<std::uint64_t>(i) * kNsPerMs);
    (void)b->send({frame_to(a->number())}, static_cast<std::uint64_t>(i) * kNsPerMs);
    (void)a->receive();
    (void)b->receive();
  }
}

}  // namespace
}  // namespace rockhopper::stack::segment
