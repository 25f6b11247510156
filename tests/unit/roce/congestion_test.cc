// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Marks, notifications (IBTA vol. 1, annex A17.9.3) and pacing of one engine, packet by packet.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/congestion/pacer.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::congestion_test {
namespace {

using roce::CongestionAlgorithm;
using roce::CongestionConfig;
using roce::DropReason;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::Opcode;

constexpr std::uint8_t kCe = 3;
constexpr std::uint64_t kUs = 1000;

MATCHER(IsCnp, "") { return arg.opcode() == Opcode::cnp; }

Packet write_only(Rig& rig, std::uint32_t psn) {
  return write_packet(Opcode::rc_rdma_write_only, psn,
                      {.va = rig.va(), .rkey = rig.rkey(), .length = 4}, pattern(4));
}

Packet cnp(Rig& rig) {
  Packet packet;
  packet.headers.bth.opcode = static_cast<std::uint8_t>(Opcode::cnp);
  packet.headers.bth.becn = true;
  packet.headers.bth.destination = rig.qp().number();
  packet.headers.cnp_reserved = {};
  return packet;
}

CongestionConfig dcqcn(const roce::DcqcnParameters& parameters = {}) {
  return {.algorithm = CongestionAlgorithm::dcqcn, .dcqcn = parameters};
}

void set(roce::QueuePair& qp, const CongestionConfig& config) {
  const auto done = qp.set_congestion_control(config);
  ASSERT_TRUE(done.has_value()) << done.error().message;
}

std::vector<Packet> only_cnps(const std::vector<Packet>& packets) {
  std::vector<Packet> cnps;
  std::copy_if(packets.begin(), packets.end(), std::back_inserter(cnps),
               [](const Packet& packet) { return packet.opcode() == Opcode::cnp; });
  return cnps;
}

TEST(Congestion, A17_9_3_MarkedRequestsAreAnsweredByACnpEach50Us) {
  Rig rig;
  const ConnectionOptions options;
  rig.inject(write_only(rig, options.rq_psn), {.traffic_class = 26 << 2 | kCe});
  std::vector<Packet> sent = rig.sent();
  ASSERT_THAT(sent, SizeIs(2));
  ASSERT_THAT(sent[0], IsCnp()) << "before everything else";
  EXPECT_TRUE(sent[0].headers.bth.becn);
  EXPECT_EQ(sent[0].headers.bth.destination.value, Rig::kPeerQpn);
  EXPECT_EQ(sent[0].psn(), 0u);
  EXPECT_FALSE(sent[0].headers.bth.ack_request);
  EXPECT_TRUE(std::ranges::all_of(sent[0].headers.cnp_reserved.bytes,
                                  [](std::uint8_t byte) { return byte == 0; }));
  EXPECT_EQ(sent[0].ip[1], 48 << 2) << "its own class, not ECN-capable";
  for (std::uint32_t i = 1; i <= 100; ++i) {
    rig.advance(kUs);
    rig.inject(write_only(rig, options.rq_psn + i), {.traffic_class = kCe});
    EXPECT_THAT(only_cnps(rig.sent()), SizeIs(i % 50 == 0 ? 1 : 0)) << i << " us";
  }
  EXPECT_EQ(rig.counters().np_ecn_marked_roce_packets.value(), 101u);
  EXPECT_EQ(rig.counters().np_cnp_sent.value(), 3u);
}

TEST(Congestion, UnmarkedPacketsAndMarkedAcknowledgementsDrawNone) {
  Rig rig;
  const ConnectionOptions options;
  std::uint32_t psn = options.rq_psn;
  for (std::uint8_t ecn = 0; ecn < kCe; ++ecn) {
    rig.inject(write_only(rig, psn++), {.traffic_class = ecn});
  }
  rig.post_send(1, roce::WrOpcode::rdma_write, 4);
  EXPECT_THAT(only_cnps(rig.sent()), IsEmpty());
  EXPECT_EQ(rig.counters().np_ecn_marked_roce_packets.value(), 0u);
  rig.inject(ack(options.sq_psn), {.traffic_class = kCe});
  EXPECT_THAT(only_cnps(rig.sent()), IsEmpty());
  EXPECT_EQ(rig.counters().np_ecn_marked_roce_packets.value(), 1u);
}

TEST(Congestion, MarkedReadResponsesDrawOne) {
  Rig rig;
  const ConnectionOptions options;
  rig.post_send(1, roce::WrOpcode::rdma_read, 4);
  ASSERT_THAT(rig.sent(), SizeIs(1));
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, options.sq_psn, pattern(4)),
             {.traffic_class = kCe});
  EXPECT_THAT(rig.sent(), ElementsAre(IsCnp()));
}

TEST(Congestion, PacketsThatAreNotTheConnectionsDrawNone) {
  Rig rig;
  const ConnectionOptions options;
  rig.inject(write_only(rig, options.rq_psn), {.source_address = true, .traffic_class = kCe});
  rig.inject(write_only(rig, options.rq_psn), {.icrc = true, .traffic_class = kCe});
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counters().np_ecn_marked_roce_packets.value(), 0u);
  EXPECT_EQ(rig.drops(DropReason::bad_address), 1u);
}

/// Who had marked packets on their way is not told by a queue pair that is another's since.
TEST(Congestion, AResetForgetsWhoWasToBeTold) {
  Rig rig;
  const ConnectionOptions options;
  rig.inject(write_only(rig, options.rq_psn), {.traffic_class = kCe});
  roce::QpAttributes reset;
  reset.qp_state = roce::QpState::reset;
  ASSERT_TRUE(rig.qp().modify(reset, roce::kQpState).has_value());
  rig.bring_up(rig.qp(), options);
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(write_only(rig, options.rq_psn), {.traffic_class = kCe});
  EXPECT_THAT(only_cnps(rig.sent()), SizeIs(1)) << "at once: a connection of its own";
}

TEST(Congestion, ADestroyedQueuePairTellsNobody) {
  Rig rig;
  roce::QueuePair& qp = rig.make_qp({});
  rig.bring_up(qp, {});
  Packet packet = write_only(rig, ConnectionOptions{}.rq_psn);
  packet.headers.bth.destination = qp.number();
  rig.inject(packet, {.traffic_class = kCe});
  rig.engine().destroy_qp(&qp);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Congestion, DatagramsDrawNone) {
  Rig rig({.qp_type = roce::QpType::ud});
  rig.post_recv(1, 100);
  rig.inject(datagram(Opcode::ud_send_only, pattern(4)), {.traffic_class = kCe});
  EXPECT_THAT(rig.recv_completions(), SizeIs(1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counters().np_ecn_marked_roce_packets.value(), 1u);
}

TEST(Congestion, CnpsAreObeyedByTheQueuePairThatTheyName) {
  Rig rig;
  set(rig.qp(), dcqcn());
  roce::QueuePair& other = rig.make_qp({});
  rig.bring_up(other, {});
  set(other, dcqcn());
  rig.inject(cnp(rig));
  EXPECT_EQ(rig.qp().congestion_rate(rig.now_ns()), 50'000'000'000u);
  EXPECT_EQ(other.congestion_rate(rig.now_ns()), roce::kUnlimited);
  EXPECT_EQ(rig.counters().rp_cnp_handled.value(), 1u);
  EXPECT_THAT(rig.sent(), IsEmpty()) << "nobody answers a CNP";
}

TEST(Congestion, ForgedCnpsChangeNothing) {
  Rig rig;
  set(rig.qp(), dcqcn());
  rig.inject(cnp(rig), {.source_address = true});
  rig.inject(cnp(rig), {.destination_address = true});
  rig.inject(cnp(rig), {.icrc = true});
  rig.inject(cnp(rig), {.pkey = 0x1234});
  Packet unknown = cnp(rig);
  unknown.headers.bth.destination = wire::Qpn{rig.qp().number().value ^ 1u << 16};
  rig.inject(unknown);
  EXPECT_EQ(rig.qp().congestion_rate(rig.now_ns()), roce::kUnlimited);
  EXPECT_EQ(rig.counters().rp_cnp_handled.value(), 0u);
  EXPECT_EQ(rig.drops(DropReason::bad_address), 1u);
  EXPECT_EQ(rig.drops(DropReason::bad_icrc), 1u);
  EXPECT_EQ(rig.drops(DropReason::bad_pkey), 1u);
  EXPECT_EQ(rig.drops(DropReason::unknown_qp), 1u);
}

/// On 25 Gbit/s the first CNP has to slow down, not to 50.
TEST(Congestion, TheLinesRateIsTheEngines) {
  Rig rig({.line_rate = 25'000'000'000});
  set(rig.qp(), dcqcn());
  EXPECT_EQ(rig.qp().congestion_control().dcqcn.rpg_max_rate, 25'000'000'000u);
  rig.inject(cnp(rig));
  EXPECT_EQ(rig.qp().congestion_rate(rig.now_ns()), 12'500'000'000u);
}

/// Returns how many CNPs marked packets of two queue pairs draw, whose peers are one host or two.
std::size_t cnps_for_two(roce::CnpScope scope, bool of_two_hosts) {
  constexpr std::uint64_t kPeriodNs = 4 * kUs;
  ConnectionOptions options{.cnp = {.scope = scope, .min_time_between_ns = kPeriodNs}};
  Rig rig(options);
  roce::QueuePair& second = rig.make_qp(options);
  // That of Damage::source_address.
  if (of_two_hosts) options.peer = stack::IpAddress::from_ipv4(0x0a000009);
  EXPECT_TRUE(rig.host().add_static_neighbour(options.peer, {{2, 0, 0, 0, 0, 9}}).has_value());
  rig.bring_up(second, options);
  const auto mark_both = [&](std::uint32_t step) {
    rig.inject(write_only(rig, options.rq_psn + step), {.traffic_class = kCe});
    Packet to_second = write_only(rig, options.rq_psn + step);
    to_second.headers.bth.destination = second.number();
    rig.inject(to_second, {.source_address = of_two_hosts, .traffic_class = kCe});
    return only_cnps(rig.sent()).size();
  };
  const std::size_t count = mark_both(0);
  EXPECT_EQ(mark_both(1), 0u) << "within the time";
  rig.advance(kPeriodNs);
  EXPECT_EQ(mark_both(2), count) << "behind it";
  return count;
}

TEST(Congestion, CnpsHaveTheirPeriodForAQueuePairAHostOrThePort) {
  using roce::CnpScope;
  for (const bool of_two_hosts : {false, true}) {
    EXPECT_EQ(cnps_for_two(CnpScope::queue_pair, of_two_hosts), 2u);
    EXPECT_EQ(cnps_for_two(CnpScope::destination, of_two_hosts), of_two_hosts ? 2u : 1u);
    EXPECT_EQ(cnps_for_two(CnpScope::port, of_two_hosts), 1u);
  }
}

/// Data that is paused must not hold up what would slow it down.
TEST(Congestion, CnpsHaveAPriorityOfTheirOwn) {
  ConnectionOptions options{.priority_tags = true, .cnp = {.dscp = 46, .priority = 5}};
  Rig rig(options);
  rig.inject(write_only(rig, options.rq_psn), {.traffic_class = kCe});
  std::array<rte_mbuf*, 8> burst{};
  const std::uint16_t count = rig.host().transmit(burst.data(), 8, rig.now_ns());
  ASSERT_EQ(count, 2u) << "CNP and acknowledgement";
  const auto* frame = rte_pktmbuf_mtod(burst[0], const std::uint8_t*);
  EXPECT_EQ(frame[12] << 8 | frame[13], RTE_ETHER_TYPE_VLAN);
  EXPECT_EQ(frame[14] >> 5, 5);
  EXPECT_EQ(frame[18 + 1] >> 2, 46);
  rte_pktmbuf_free_bulk(burst.data(), count);
}

TEST(Congestion, CnpsOfAnotherLengthAreCountedAsSuch) {
  for (const std::int32_t extra : {4, -4, -16}) {
    Rig rig;
    set(rig.qp(), dcqcn());
    rig.inject(cnp(rig), {.extra_bytes = extra});
    EXPECT_EQ(rig.drops(DropReason::cnp_bad_length), 1u) << extra;
    EXPECT_EQ(rig.counters().rp_cnp_handled.value(), 0u);
  }
}

TEST(Congestion, CnpsForWhatHasNoUseForThemAreCounted) {
  Rig rig;
  rig.inject(cnp(rig));
  set(rig.qp(), {.algorithm = CongestionAlgorithm::swift});
  rig.inject(cnp(rig));
  EXPECT_EQ(rig.counters().rp_cnp_ignored.value(), 2u);
  EXPECT_EQ(rig.counters().rp_cnp_handled.value(), 0u);
  Rig datagrams({.qp_type = roce::QpType::ud});
  datagrams.inject(cnp(datagrams));
  EXPECT_EQ(datagrams.drops(DropReason::bad_service), 1u);
  Rig early({.state = roce::QpState::init});
  early.inject(cnp(early));
  EXPECT_EQ(early.drops(DropReason::bad_qp_state), 1u);
}

/// Lets `duration_ns` pass in steps of a microsecond, without acknowledgements; the packets sent.
std::size_t packets_in(Rig& rig, std::uint64_t duration_ns) {
  std::size_t count = 0;
  for (std::uint64_t passed_ns = 0; passed_ns < duration_ns; passed_ns += kUs) {
    rig.advance(kUs);
    count += rig.sent().size();
  }
  return count;
}

TEST(Congestion, RequestsFollowTheRateOfTheWire) {
  // 256 bytes of payload: with BTH, ICRC and the headers below 256 + 16 + 42 bytes and 24 of
  // Ethernet, 338 bytes. At 0.5 Gbit/s, 1 ms has 184.9 of them (WRITE first has a RETH of 16).
  Rig rig({}, 4096);
  set(rig.qp(), dcqcn({.rpg_max_rate = 1'000'000'000,
                       .rpg_ai_rate = 1'000'000,
                       .rpg_time_reset_ns = 1'000'000 * kUs}));
  rig.inject(cnp(rig));
  EXPECT_EQ(rig.qp().congestion_rate(rig.now_ns()), 500'000'000u);
  for (std::uint64_t i = 0; i < 4; ++i) {
    rig.post_send(i, roce::WrOpcode::rdma_write, 32768);
  }
  EXPECT_LE(rig.sent().size(), 1u);
  EXPECT_NEAR(static_cast<double>(packets_in(rig, 1000 * kUs)), 184.9, 2);
  EXPECT_NEAR(static_cast<double>(packets_in(rig, 500 * kUs)), 92.4, 2) << "no saving up";
}

TEST(Congestion, PacketsShorterThanTheMtuNeedNoMoreToGoOn) {
  Rig rig;
  set(rig.qp(), dcqcn({.rpg_max_rate = 10'000'000'000, .rpg_time_reset_ns = 1'000'000 * kUs}));
  rig.inject(cnp(rig));
  rig.advance(100 * kUs);
  for (std::uint64_t i = 0; i < 16; ++i) {
    rig.post_send(i, roce::WrOpcode::rdma_write, 8);
  }
  // 106 bytes each at 5 Gbit/s: 2.7 us.
  EXPECT_EQ(rig.sent().size() + packets_in(rig, 10 * kUs), 16u);
}

TEST(Congestion, ReadResponsesFollowTheRateAndAcknowledgementsDoNotWait) {
  Rig rig;
  const ConnectionOptions options;
  set(rig.qp(), dcqcn({.rpg_max_rate = 1'000'000'000,
                       .rpg_ai_rate = 1'000'000,
                       .rpg_time_reset_ns = 1'000'000 * kUs}));
  rig.inject(cnp(rig));
  rig.inject(read_request(options.rq_psn, {.va = rig.va(), .rkey = rig.rkey(), .length = 51200}));
  const std::size_t at_once = rig.sent().size();
  EXPECT_LE(at_once, 1u);
  // 338 bytes each, 0.5 Gbit/s: 200 of them take 1.08 ms.
  const std::size_t in_half = packets_in(rig, 540 * kUs);
  EXPECT_NEAR(static_cast<double>(in_half), 100, 2);
  EXPECT_EQ(at_once + in_half + packets_in(rig, 700 * kUs), 200u);
  // What was sent last has used up the time until now; an acknowledgement goes all the same.
  for (int i = 0; i < 4; ++i) {
    rig.post_send(1, roce::WrOpcode::rdma_write, 8192);
  }
  while (!rig.sent().empty()) {
  }
  rig.inject(write_only(rig, options.rq_psn + 200));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(options.rq_psn + 200, 2u)));
}

TEST(Congestion, RequestsAndResponsesTakeTurnsAtALowRate) {
  Rig rig;
  const ConnectionOptions options;
  set(rig.qp(), dcqcn({.rpg_max_rate = 200'000'000,
                       .rpg_ai_rate = 1'000'000,
                       .rpg_time_reset_ns = 1'000'000 * kUs}));
  rig.inject(cnp(rig));
  rig.inject(read_request(options.rq_psn, {.va = rig.va(), .rkey = rig.rkey(), .length = 51200}));
  rig.post_send(1, roce::WrOpcode::rdma_write, 25600);
  std::size_t requests = 0;
  std::size_t responses = 0;
  for (int i = 0; i < 1000; ++i) {
    rig.advance(kUs);
    for (const Packet& packet : rig.sent()) {
      ++(packet.opcode() >= Opcode::rc_rdma_read_response_first ? responses : requests);
    }
  }
  EXPECT_GT(requests, 10u);
  EXPECT_NEAR(static_cast<double>(requests), static_cast<double>(responses), 2);
}

TEST(Congestion, DcqcnsPacketsAreEcnCapableAndOthersAreNot) {
  Rig rig;
  const auto ecn_of_next = [&rig] {
    rig.post_send(1, roce::WrOpcode::rdma_write, 4);
    const auto sent = rig.sent();
    return sent.size() == 1 ? sent[0].ip[1] & 3 : -1;
  };
  EXPECT_EQ(ecn_of_next(), 0);
  set(rig.qp(), dcqcn());
  EXPECT_EQ(ecn_of_next(), 2);
  set(rig.qp(), {.algorithm = CongestionAlgorithm::swift});
  EXPECT_EQ(ecn_of_next(), 0);
  set(rig.qp(), dcqcn());
  EXPECT_EQ(rig.qp().congestion_control().algorithm, CongestionAlgorithm::dcqcn);
  set(rig.qp(), {});
  EXPECT_EQ(ecn_of_next(), 0);
  EXPECT_EQ(rig.qp().congestion_control().algorithm, CongestionAlgorithm::none);
}

/// What NVIDIA's recipes have for a traffic class, 106, is ECN-capable; an RNIC asks its congestion
/// control and not the application. "Congestion experienced" is sent as it is.
TEST(Congestion, OnlyACongestionControlMakesATrafficClassEcnCapable) {
  constexpr int kDscp = 26 << 2;
  constexpr int kEct0 = 2;
  const auto sent_as = [](int traffic_class, CongestionAlgorithm algorithm) {
    Rig rig;
    roce::QueuePair& qp = rig.make_qp({});
    roce::QpAttributes attributes = rig.attributes({});
    attributes.ah_attr.traffic_class = static_cast<std::uint8_t>(traffic_class);
    EXPECT_TRUE(qp.bring_up(attributes, roce::QpState::rts).has_value());
    set(qp, {.algorithm = algorithm});
    EXPECT_EQ(qp.post_send({.opcode = roce::WrOpcode::rdma_write}), roce::PostResult::ok);
    const auto sent = rig.sent();
    return sent.size() == 1 ? int{sent[0].ip[1]} : -1;
  };
  for (const int ecn : {0, 1, 2}) {
    EXPECT_EQ(sent_as(kDscp | ecn, CongestionAlgorithm::none), kDscp);
    EXPECT_EQ(sent_as(kDscp | ecn, CongestionAlgorithm::swift), kDscp);
    EXPECT_EQ(sent_as(kDscp | ecn, CongestionAlgorithm::dcqcn), kDscp | kEct0);
  }
  for (const auto algorithm : {CongestionAlgorithm::none, CongestionAlgorithm::dcqcn}) {
    EXPECT_EQ(sent_as(kDscp | kCe, algorithm), kDscp | kCe);
  }
}

TEST(Congestion, SwiftKeepsItsWindowAndMeasuresRoundTrips) {
  Rig rig;
  const ConnectionOptions options;
  set(rig.qp(), {.algorithm = CongestionAlgorithm::swift,
                 .swift = {.base_target_delay_ns = 30 * kUs, .fs_range_ns = 0, .max_cwnd = 8}});
  rig.post_send(1, roce::WrOpcode::rdma_write, 16384);
  std::vector<Packet> sent = rig.sent();
  ASSERT_THAT(sent, SizeIs(8));
  for (const Packet& packet : sent) {
    EXPECT_TRUE(packet.headers.bth.ack_request);
  }
  // 60 us: 1 - 0.8 (60 - 30) / 60 = 0.6 of 8 packets.
  rig.advance(60 * kUs);
  rig.inject(ack(options.sq_psn));
  EXPECT_THAT(rig.sent(), IsEmpty()) << "seven in flight, four allowed";
  rig.inject(ack(options.sq_psn + 3));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.inject(ack(options.sq_psn + 4));
  EXPECT_THAT(rig.sent(), SizeIs(1));
}

/// One packet at a time, as an application may want it.
class StopAndWait final : public roce::CongestionControl {
 public:
  explicit StopAndWait(bool acks) : acks_(acks) {}
  void reset() override {}
  [[nodiscard]] std::uint64_t rate(std::uint64_t /*now_ns*/) override { return roce::kUnlimited; }
  [[nodiscard]] std::uint32_t window_packets() const override { return 1; }
  [[nodiscard]] bool uses_acks() const override { return acks_; }

 private:
  bool acks_;
};

CongestionConfig stop_and_wait(bool acks) {
  return {.algorithm = CongestionAlgorithm::custom,
          .make = [acks] { return std::make_unique<StopAndWait>(acks); }};
}

TEST(Congestion, AnApplicationMayHaveItsOwn) {
  Rig rig;
  const ConnectionOptions options;
  set(rig.qp(), stop_and_wait(true));
  EXPECT_EQ(rig.qp().congestion_control().algorithm, CongestionAlgorithm::custom);
  rig.post_send(1, roce::WrOpcode::rdma_write, 1024);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_THAT(rig.sent(), SizeIs(1)) << i;
    rig.inject(ack(options.sq_psn + i));
  }
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), SizeIs(1));
}

TEST(Congestion, OnesOwnIsMadeOnceForEachQueuePair) {
  Rig rig;
  unsigned made = 0;
  CongestionConfig config = stop_and_wait(true);
  config.make = [&made, make = config.make] {
    ++made;
    return make();
  };
  set(rig.qp(), config);
  EXPECT_EQ(made, 1u);
  config.make = [] { return nullptr; };
  EXPECT_FALSE(rig.qp().set_congestion_control(config).has_value());
  config.make = nullptr;
  EXPECT_FALSE(rig.qp().set_congestion_control(config).has_value());
  EXPECT_EQ(rig.qp().congestion_control().algorithm, CongestionAlgorithm::custom);
}

TEST(Congestion, OnesOwnNeedsAServiceWithAcknowledgementsToHaveThem) {
  Rig uc({.qp_type = roce::QpType::uc});
  EXPECT_FALSE(uc.qp().set_congestion_control(stop_and_wait(true)).has_value());
  EXPECT_TRUE(uc.qp().set_congestion_control(stop_and_wait(false)).has_value());
}

TEST(Congestion, AResetBeginsAnew) {
  Rig rig;
  set(rig.qp(), dcqcn());
  rig.inject(cnp(rig));
  roce::QpAttributes reset;
  reset.qp_state = roce::QpState::reset;
  ASSERT_TRUE(rig.qp().modify(reset, roce::kQpState).has_value());
  EXPECT_EQ(rig.qp().congestion_rate(rig.now_ns()), roce::kUnlimited);
  EXPECT_EQ(rig.qp().congestion_control().algorithm, CongestionAlgorithm::dcqcn);
}

TEST(Congestion, ServicesWithoutTheMeansRefuse) {
  Rig ud({.qp_type = roce::QpType::ud});
  EXPECT_FALSE(ud.qp().set_congestion_control(dcqcn()).has_value());
  EXPECT_TRUE(ud.qp().set_congestion_control({}).has_value());
  Rig uc({.qp_type = roce::QpType::uc});
  EXPECT_TRUE(uc.qp().set_congestion_control(dcqcn()).has_value());
  const auto refused = uc.qp().set_congestion_control({.algorithm = CongestionAlgorithm::swift});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  Rig rc;
  EXPECT_FALSE(rc.qp().set_congestion_control(dcqcn({.dce_tcp_g = 0})).has_value());
}

}  // namespace
}  // namespace rockhopper::test::congestion_test
