// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/uplink.h"

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <sys/file.h>

#include "stack/clock.h"
#include "stack/descriptor.h"
#include "stack/plain_pool.h"
#include "stack/time_units.h"
#include "tests/support/child_process.h"
#include "tests/support/loopback_address.h"
#include "tests/support/packets.h"

namespace rockhopper {
namespace {

using stack::IpAddress;
using test::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint16_t kMtu = 4300;
constexpr std::size_t kIpAt = sizeof(rte_ether_hdr);
constexpr std::size_t kUdpAt = kIpAt + sizeof(rte_ipv4_hdr);
constexpr std::size_t kQpnAt = kUdpAt + sizeof(rte_udp_hdr) + 5;
constexpr auto kPatience = std::chrono::seconds(20);
constexpr std::uint64_t kSleepNs = 20 * kNsPerSecond;

/// Whether it comes to that in time.
template <typename Condition>
bool eventually(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// A host: its processes share a segment.
struct Machine {
  test::TemporaryDirectory directory;
  IpAddress address = test::loopback_address();
};

/// A process of a host, but in this one, with one queue pair.
class Process {
 public:
  Process(const Machine& machine, std::uint16_t qpn, std::uint32_t mbufs = 256)
      : machine_(machine),
        pool_(std::move(*stack::PlainPool::create({.size = mbufs, .data_room = 4400}))),
        segment_(std::move(*SegmentEnd::open(
            {.directory = machine.directory.path(), .mtu = kMtu, .pool = pool_->get()}))),
        uplink_(std::move(*try_open(*segment_, *pool_, machine.address))) {
    EXPECT_TRUE(segment_->membership().claim(qpn));
  }
  static Expected<std::unique_ptr<Uplink>> try_open(SegmentEnd& segment, stack::PlainPool& pool,
                                                    const IpAddress& address) {
    return Uplink::open(
        {.segment = &segment, .addresses = {address}, .pool = pool.get(), .mtu = kMtu});
  }

  /// A frame to a queue pair of that host.
  [[nodiscard]] Bytes frame_to(const Machine& machine, std::uint16_t qpn,
                               std::size_t payload = 16) const {
    Bytes frame = test::roce_frame(4, 0, Bytes(payload, 7));
    const bool leaves = machine.address != machine_.address;
    const rte_ether_addr to = leaves ? uplink_->socket_end().mac : uplink_->mac();
    const rte_ether_addr from = uplink_->mac();
    std::memcpy(frame.data(), &to, sizeof to);
    std::memcpy(&frame[sizeof to], &from, sizeof from);
    const rte_be32_t source = rte_cpu_to_be_32(machine_.address.ipv4());
    const rte_be32_t destination = rte_cpu_to_be_32(machine.address.ipv4());
    std::memcpy(&frame[kIpAt + 12], &source, sizeof source);
    std::memcpy(&frame[kIpAt + 16], &destination, sizeof destination);
    frame[kQpnAt] = 0;
    frame[kQpnAt + 1] = static_cast<std::uint8_t>(qpn >> 8);
    frame[kQpnAt + 2] = static_cast<std::uint8_t>(qpn);
    return frame;
  }
  std::uint16_t send(const std::vector<Bytes>& frames) {
    std::vector<rte_mbuf*> packets;
    for (const Bytes& frame : frames) {
      packets.push_back(test::make_packet(pool_->get(), frame));
    }
    const auto count = static_cast<std::uint16_t>(packets.size());
    const std::uint16_t taken = uplink_->tx_burst(packets.data(), count, clock_.now_ns());
    rte_pktmbuf_free_bulk(packets.data() + taken, count - taken);
    return taken;
  }
  std::vector<Bytes> receive() { return receive_at(clock_.now_ns()); }
  std::vector<Bytes> receive_at(std::uint64_t now_ns) {
    std::array<rte_mbuf*, 32> packets{};
    const std::uint16_t count = uplink_->rx_burst(packets.data(), packets.size(), now_ns);
    std::vector<Bytes> frames;
    for (std::uint16_t i = 0; i < count; ++i) {
      frames.push_back(test::bytes_of(packets[i]));
      rte_pktmbuf_free(packets[i]);
    }
    return frames;
  }
  /// Until there is something, which must come in time.
  std::vector<Bytes> wait_for_frames() {
    std::vector<Bytes> frames;
    (void)eventually([&] { return !(frames = receive()).empty(); });
    return frames;
  }
  bool comes_to_receive() const {
    return eventually([this] { return uplink_->receives(); });
  }

  [[nodiscard]] Uplink& uplink() { return *uplink_; }
  [[nodiscard]] SegmentEnd& segment() { return *segment_; }

 private:
  const Machine& machine_;
  stack::TscClock clock_;
  std::unique_ptr<stack::PlainPool> pool_;
  std::unique_ptr<SegmentEnd> segment_;
  std::unique_ptr<Uplink> uplink_;
};

/// Of the datagram.
Bytes payload_of(const Bytes& frame) {
  return {frame.begin() + kUdpAt + sizeof(rte_udp_hdr), frame.end()};
}

std::uint8_t last_of_qpn(const Bytes& frame) { return frame[kQpnAt + 2]; }

class UplinkTest : public ::testing::Test {
 protected:
  Machine here_;
  Machine there_;
};

TEST_F(UplinkTest, FramesReachTheOtherHost) {
  Process ours(here_, 11);
  Process theirs(there_, 12);
  const Bytes sent = ours.frame_to(there_, 12);
  EXPECT_EQ(ours.send({sent}), 1);
  const auto frames = theirs.wait_for_frames();
  ASSERT_THAT(frames, SizeIs(1));
  const rte_ether_addr mac = theirs.uplink().mac();
  EXPECT_EQ(std::memcmp(frames[0].data(), &mac, sizeof mac), 0) << "the segment's address";
  EXPECT_EQ(payload_of(frames[0]), payload_of(sent));
  EXPECT_EQ(theirs.send({theirs.frame_to(here_, 11)}), 1);
  EXPECT_THAT(ours.wait_for_frames(), SizeIs(1));
}

TEST_F(UplinkTest, BothWaysInOneBurst) {
  Process ours(here_, 11);
  Process beside(here_, 13);
  Process theirs(there_, 12);
  const Bytes out = ours.frame_to(there_, 12);
  const Bytes in = ours.frame_to(here_, 13);
  const Bytes own = ours.frame_to(here_, 11);
  EXPECT_EQ(ours.send({out, in, in, own, out, in}), 6);
  EXPECT_THAT(beside.receive(), SizeIs(3));
  EXPECT_THAT(ours.receive(), ElementsAre(own));
  EXPECT_THAT(theirs.wait_for_frames(), SizeIs(2));
}

TEST_F(UplinkTest, OneReceivesForAll) {
  Process first(there_, 12);
  Process second(there_, 13);
  EXPECT_TRUE(first.uplink().receives());
  EXPECT_FALSE(second.uplink().receives());
  Process ours(here_, 11);
  // What nobody has is the receiver's, to be counted.
  EXPECT_EQ(ours.send({ours.frame_to(there_, 13), ours.frame_to(there_, 12),
                       ours.frame_to(there_, 99), ours.frame_to(there_, 13)}),
            4);
  const auto own = first.wait_for_frames();
  ASSERT_THAT(own, SizeIs(2));
  EXPECT_EQ(last_of_qpn(own[0]), 12);
  EXPECT_EQ(last_of_qpn(own[1]), 99);
  const auto passed = second.receive();
  ASSERT_THAT(passed, SizeIs(2));
  EXPECT_EQ(last_of_qpn(passed[0]), 13);
  EXPECT_EQ(first.uplink().counters().rx_forwarded.value(), 2u);
}

TEST_F(UplinkTest, AnotherOneTakesOver) {
  auto first = std::make_unique<Process>(there_, 12);
  Process second(there_, 13);
  Process third(there_, 14);
  Process ours(here_, 11);
  first.reset();
  // Whichever is faster.
  ASSERT_TRUE(eventually([&] { return second.uplink().receives() || third.uplink().receives(); }));
  Process& next = second.uplink().receives() ? second : third;
  Process& last = second.uplink().receives() ? third : second;
  EXPECT_FALSE(last.uplink().receives());
  EXPECT_THAT(next.receive(), IsEmpty());
  EXPECT_EQ(next.uplink().counters().takeovers.value(), 1u);
  EXPECT_EQ(ours.send({ours.frame_to(there_, 13), ours.frame_to(there_, 14)}), 2);
  EXPECT_THAT(next.wait_for_frames(), SizeIs(1));
  EXPECT_THAT(last.receive(), SizeIs(1));
}

TEST_F(UplinkTest, TheLastOneTakesOverToo) {
  auto first = std::make_unique<Process>(there_, 12);
  auto second = std::make_unique<Process>(there_, 13);
  const Process third(there_, 14);
  first.reset();
  second.reset();
  EXPECT_TRUE(third.comes_to_receive());
}

/// As after a race for the role: who had it has ended, and another one has the lock.
TEST_F(UplinkTest, OneThatWasSlowerTakesOverLater) {
  const std::string role = there_.directory.path() + "/uplink";
  ASSERT_TRUE(stack::Succession::open(role));
  const stack::Descriptor faster(::open(role.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_EQ(::flock(faster.fd(), LOCK_EX | LOCK_NB), 0);
  stack::Descriptor writer(::open(role.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  Process slower(there_, 13);
  writer.reset();
  // The thread is refused meanwhile, but nothing here depends on that.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(slower.uplink().receives());
  ASSERT_EQ(::flock(faster.fd(), LOCK_UN), 0);
  EXPECT_TRUE(slower.comes_to_receive());
}

TEST_F(UplinkTest, ADatagramEndsTheSleepOfItsReceiver) {
  Process theirs(there_, 12);
  Process ours(here_, 11);
  // It has looked into the sockets, and found nothing for some time.
  EXPECT_EQ(theirs.send({theirs.frame_to(here_, 11)}), 1);
  EXPECT_THAT(ours.wait_for_frames(), SizeIs(1));
  for (int round = 0; round < 20; ++round) {
    auto& link = theirs.segment().link();
    const auto armed = link.arm();
    ASSERT_TRUE(armed);
    ASSERT_TRUE(theirs.uplink().arm());
    std::thread sender([&] { (void)ours.send({ours.frame_to(there_, 12)}); });
    const stack::TscClock clock;
    link.sleep(*armed, clock.now_ns() + kSleepNs);
    sender.join();
    ASSERT_THAT(theirs.receive(), SizeIs(1)) << round;
  }
}

TEST_F(UplinkTest, LooksMoreRarelyTheLongerNothingMoves) {
  Process theirs(there_, 12);
  Process ours(here_, 11);
  const auto send = [&] { EXPECT_EQ(ours.send({ours.frame_to(there_, 12)}), 1); };
  send();
  EXPECT_THAT(theirs.wait_for_frames(), SizeIs(1));
  const std::uint64_t later_ns = stack::TscClock().now_ns() + 10 * kNsPerMs;
  EXPECT_THAT(theirs.receive_at(later_ns), IsEmpty());
  send();
  EXPECT_THAT(theirs.receive_at(later_ns + 100 * kNsPerUs), IsEmpty()) << "it looks 0.6 ms later";
  EXPECT_THAT(theirs.receive_at(later_ns + kNsPerMs), SizeIs(1));
  send();
  EXPECT_THAT(theirs.receive_at(later_ns + kNsPerMs + 1), SizeIs(1)) << "one has moved";
}

TEST_F(UplinkTest, ADatagramThatWaitsAlreadyForbidsTheSleep) {
  Process theirs(there_, 12);
  Process ours(here_, 11);
  EXPECT_EQ(ours.send({ours.frame_to(there_, 12)}), 1);
  EXPECT_TRUE(eventually([&] { return !theirs.uplink().arm(); }));
  EXPECT_FALSE(theirs.uplink().arm());
  EXPECT_THAT(theirs.receive(), SizeIs(1));
  EXPECT_TRUE(theirs.uplink().arm());
}

TEST_F(UplinkTest, AProcessThatStandsStillCostsOthersNothing) {
  Process first(there_, 12);
  Process still(there_, 13);
  Process beside(there_, 14);
  Process ours(here_, 11);
  const std::vector<Bytes> many(16, ours.frame_to(there_, 13, 4000));
  const auto& counters = first.uplink().counters();
  (void)eventually([&] {
    (void)ours.send(many);
    EXPECT_THAT(first.receive(), IsEmpty());
    return counters.rx_forward_refused.value() > 0;
  });
  EXPECT_GT(counters.rx_forward_refused.value(), 0u);
  // Behind a frame that is refused, others are not.
  EXPECT_EQ(
      ours.send({many.front(), ours.frame_to(there_, 14), many.front(), ours.frame_to(there_, 12)}),
      4);
  EXPECT_THAT(first.wait_for_frames(), SizeIs(1));
  EXPECT_THAT(beside.receive(), SizeIs(1));
}

TEST_F(UplinkTest, ErrorsSayWhatIsWrong) {
  const Process ours(here_, 11);
  const test::TemporaryDirectory other_segment;
  auto pool = std::move(*stack::PlainPool::create({.size = 64, .data_room = 4400}));
  auto segment = std::move(
      *SegmentEnd::open({.directory = other_segment.path(), .mtu = kMtu, .pool = pool->get()}));
  const auto second = Process::try_open(*segment, *pool, here_.address);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_THAT(second.error().message, HasSubstr("UDP port 4791 of " + here_.address.to_string()));
  const auto foreign = Process::try_open(*segment, *pool, *IpAddress::parse("192.0.2.1"));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::not_found);
  EXPECT_TRUE(Process::try_open(*segment, *pool, test::loopback_address()))
      << "what failed has not kept the role";
}

}  // namespace
}  // namespace rockhopper
