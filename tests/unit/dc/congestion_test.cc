// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Congestion notifications of dynamic connections (WIRE-7): who is told of marked packets, and
// which streams obey. A traffic class of 3 is sent as it is, as of any queue pair: such packets
// arrive as if a switch had marked them.
#include <gtest/gtest.h>

#include "roce/packet_builder.h"
#include "tests/sim/seeded_runs.h"
#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test::congestion_test {
namespace {

using roce::WcStatus;
using roce::WrOpcode;
using sim::must;
using ::testing::Each;

constexpr std::uint8_t kCe = 3;
constexpr std::uint64_t kUs = 1000;
constexpr std::uint64_t kLine = 100'000'000'000;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

void use_dcqcn(dc::DciInit& init) {
  init.congestion.algorithm = roce::CongestionAlgorithm::dcqcn;
  // What a rate has become stays so for the time of a test.
  init.congestion.dcqcn.rpg_time_reset_ns = 1'000'000'000'000;
}

class DcCongestion : public ::testing::Test {
 protected:
  /// Another address of the targets' node.
  static stack::IpAddress second_address() { return stack::IpAddress::from_ipv4(0x0a000003); }

  DcCongestion() {
    must(pair_.network().node(1).host().add_address(second_address(), 24));
    must(pair_.network().node(0).host().add_static_neighbour(second_address(),
                                                             stack::sim::Network::mac_of(1)));
  }

  [[nodiscard]] roce::AddressHandle* make_ah(const stack::IpAddress& destination,
                                             std::uint8_t traffic_class = 0) {
    return must(
        pair_.engine(0).create_ah(pair_.dci_init().pd, {.source = pair_.network().node(0).address(),
                                                        .destination = destination,
                                                        .traffic_class = traffic_class}));
  }
  /// 8 bytes, and waits until they have arrived.
  void write(dc::Dci& dci, roce::AddressHandle* ah, std::uint8_t stream = 0,
             std::uint32_t length = 8) {
    ASSERT_EQ(pair_.post(dci, dct_, WrOpcode::rdma_write, length, 0, stream,
                         [ah](auto& wr) { wr.ah = ah; }),
              roce::PostResult::ok);
    EXPECT_THAT(pair_.statuses(1), Each(WcStatus::success));
  }
  [[nodiscard]] std::uint64_t rate(const dc::Dci& dci, std::uint8_t stream = 0) {
    return dci.congestion_rate(pair_.now_ns(), stream);
  }
  [[nodiscard]] const roce::EngineCounters& counters(unsigned node) {
    return pair_.engine(node).counters();
  }
  [[nodiscard]] std::uint64_t drops(roce::DropReason reason) {
    return counters(0).drops[static_cast<std::size_t>(reason)].value();
  }
  /// Node 0 gets a notification for `destination` that `source` of node 1 has sent.
  void inject_cnp(wire::Qpn destination, const stack::IpAddress& source,
                  std::uint16_t pkey = wire::kDefaultPkey) {
    stack::Host& host = pair_.network().node(1).host();
    stack::Flow flow;
    flow.config =
        roce::flow_config({.source = source, .destination = pair_.network().node(0).address()}, 1);
    ASSERT_EQ(host.resolve(flow, pair_.now_ns()), stack::Resolution::ready);
    wire::Headers headers;
    headers.bth.opcode = static_cast<std::uint8_t>(wire::Opcode::cnp);
    headers.bth.becn = true;
    headers.bth.pkey = pkey;
    headers.bth.destination = destination;
    headers.cnp_reserved = {};
    roce::PacketBuilder builder(sim::pools().node(1), host, flow, headers, 0);
    ASSERT_TRUE(builder.ok());
    rte_mbuf* packet = builder.finish();
    pair_.network().node(0).host().receive(&packet, 1, pair_.now_ns());
  }

  DcPair pair_;
  const dc::Dct& dct_ = pair_.make_dct();
  stack::IpAddress first_address_ = pair_.network().node(1).address();
  roce::AddressHandle* plain_ = make_ah(first_address_);
  roce::AddressHandle* marked_ = make_ah(first_address_, kCe);
  roce::AddressHandle* elsewhere_ = make_ah(second_address());
};

/// WIRE-7: the target's side tells the initiator, whose rate is halved and recovers.
TEST_F(DcCongestion, MarkedDataSlowsTheStreamDownForAWhile) {
  dc::Dci& dci = pair_.make_dci(
      [](auto& init) { init.congestion.algorithm = roce::CongestionAlgorithm::dcqcn; });
  write(dci, plain_);
  EXPECT_EQ(rate(dci), roce::kUnlimited);
  EXPECT_EQ(counters(1).np_cnp_sent.value(), 0u);
  write(dci, marked_);
  EXPECT_EQ(rate(dci), kLine / 2);
  EXPECT_EQ(counters(1).np_ecn_marked_roce_packets.value(), 1u) << "of data";
  EXPECT_EQ(counters(1).np_cnp_sent.value(), 1u);
  EXPECT_EQ(counters(0).rp_cnp_handled.value(), 1u);
  pair_.run_for(kNsPerSecond);
  EXPECT_EQ(rate(dci), roce::kUnlimited);
}

/// WIRE-7: packets of a stream with DCQCN are ECN-capable, so that a switch can mark them.
TEST(DcCongestionAtASwitch, MarksPacketsOfStreamsWithCongestionControl) {
  DcPair pair({}, {.marked_percent = 100});
  const dc::Dct& dct = pair.make_dct();
  dc::Dci& obedient = pair.make_dci(use_dcqcn);
  dc::Dci& other = pair.make_dci();
  pair.write(other, dct);
  EXPECT_THAT(pair.statuses(1), Each(WcStatus::success));
  EXPECT_EQ(pair.engine(1).counters().np_ecn_marked_roce_packets.value(), 0u);
  pair.write(obedient, dct);
  EXPECT_THAT(pair.statuses(1), Each(WcStatus::success));
  EXPECT_EQ(pair.engine(1).counters().np_ecn_marked_roce_packets.value(), 1u);
  EXPECT_EQ(obedient.congestion_rate(pair.now_ns()), kLine / 2);
  EXPECT_EQ(other.congestion_rate(pair.now_ns()), roce::kUnlimited);
}

/// WIRE-7: what is sent keeps to the rate. 40 packets of 1024 bytes of payload and, as RC's would
/// have, 40 of headers and 24 of Ethernet at least, at 10 Mbit/s at most.
TEST_F(DcCongestion, TheRateIsThatOfTheWire) {
  constexpr std::uint64_t kRate = 10'000'000;
  dc::Dci& dci = pair_.make_dci([](auto& init) {
    use_dcqcn(init);
    init.timeout = 20;
    init.congestion.dcqcn.rpg_max_rate = 2 * kRate;
    init.congestion.dcqcn.rpg_min_rate = 1'000'000;
  });
  write(dci, marked_);
  ASSERT_EQ(rate(dci), kRate);
  const std::uint64_t start_ns = pair_.now_ns();
  ASSERT_EQ(pair_.post(dci, dct_, WrOpcode::rdma_write, 40 * 1024, 0, 0,
                       [this](auto& wr) { wr.ah = marked_; }),
            roce::PostResult::ok);
  EXPECT_THAT(pair_.statuses(1), Each(WcStatus::success));
  EXPECT_GE(pair_.now_ns() - start_ns, 39u * (1024 + 64) * 8 * kNsPerSecond / kRate);
}

/// DC-30: a lease that ends before the next packet may go costs no request its turn.
TEST_F(DcCongestion, KeepAlivesDoNotTakeTheTurnsOfData) {
  dc::Dci& dci = pair_.make_dci([](auto& init) {
    use_dcqcn(init);
    init.timeout = 20;
    init.lease_us = 200;
    init.congestion.dcqcn.rpg_max_rate = 2'000'000;
    init.congestion.dcqcn.rpg_min_rate = 1'000'000;
  });
  write(dci, marked_);
  ASSERT_EQ(rate(dci), 1'000'000u);
  write(dci, marked_, 0, 40 * 1024);
}

/// WIRE-7: a notification names no stream. All that are connected to where it comes from obey.
TEST_F(DcCongestion, AllStreamsToThatAddressObey) {
  dc::Dci& dci = pair_.make_dci([](auto& init) {
    use_dcqcn(init);
    init.streams = 4;
  });
  write(dci, plain_, 1);
  write(dci, elsewhere_, 2);
  write(dci, marked_, 0);
  EXPECT_EQ(rate(dci, 0), kLine / 2);
  EXPECT_EQ(rate(dci, 1), kLine / 2);
  EXPECT_EQ(rate(dci, 2), roce::kUnlimited) << "to another address";
  EXPECT_EQ(rate(dci, 3), roce::kUnlimited) << "not connected";
  EXPECT_EQ(counters(0).rp_cnp_handled.value(), 1u);
}

/// One in 50 us for each session, as for each queue pair.
TEST_F(DcCongestion, NotificationsAreRareForEachSession) {
  dc::Dci& first = pair_.make_dci(use_dcqcn);
  dc::Dci& second = pair_.make_dci(use_dcqcn);
  write(first, marked_, 0, 20'000);
  EXPECT_EQ(counters(1).np_ecn_marked_roce_packets.value(), 20u);
  EXPECT_EQ(counters(1).np_cnp_sent.value(), 1u);
  write(second, marked_);
  EXPECT_EQ(counters(1).np_cnp_sent.value(), 2u);
  // Now 0, 10 and 60 us after the first of them.
  for (const std::uint64_t wait_ns : {0 * kUs, 10 * kUs, 50 * kUs}) {
    pair_.run_for(wait_ns);
    ASSERT_EQ(pair_.post(first, dct_, WrOpcode::rdma_write, 8, 0, 0,
                         [this](auto& wr) { wr.ah = marked_; }),
              roce::PostResult::ok);
  }
  EXPECT_THAT(pair_.statuses(3), Each(WcStatus::success));
  EXPECT_EQ(counters(1).np_ecn_marked_roce_packets.value(), 24u);
  EXPECT_EQ(counters(1).np_cnp_sent.value(), 4u);
}

/// DC-6: what is known of the way to one host says nothing of the way to the next.
TEST_F(DcCongestion, AnotherAddressBeginsAnew) {
  dc::Dci& dci = pair_.make_dci(use_dcqcn);
  write(dci, marked_);
  ASSERT_EQ(rate(dci), kLine / 2);
  write(dci, elsewhere_);
  EXPECT_EQ(rate(dci), roce::kUnlimited);
}

/// A switch of targets, or a new connection, is no way around a congested link.
TEST_F(DcCongestion, AnotherConnectionOverTheSamePathDoesNot) {
  dc::Dci& dci = pair_.make_dci([](auto& init) {
    use_dcqcn(init);
    init.lease_us = 100'000;
  });
  const dc::Dct& another = pair_.make_dct();
  write(dci, marked_);
  pair_.run_for(200'000 * kUs);
  ASSERT_EQ(pair_.sent().tx_disconnect.value(), 1u) << "its lease is over";
  EXPECT_EQ(rate(dci), kLine / 2);
  ASSERT_EQ(pair_.engine(1).counters().np_cnp_sent.value(), 1u);
  inject_cnp(dci.number(), first_address_);
  EXPECT_EQ(drops(roce::DropReason::dc_unknown_session), 1u) << "it is not connected";
  EXPECT_EQ(rate(dci), kLine / 2);
  roce::AddressHandle* same = make_ah(first_address_, kCe);
  ASSERT_EQ(
      pair_.post(dci, another, WrOpcode::rdma_read, 8, 0, 0, [same](auto& wr) { wr.ah = same; }),
      roce::PostResult::ok);
  EXPECT_EQ(rate(dci), kLine / 2);
}

/// "Congestion experienced" in an address handle is sent as it is, as by any queue pair
/// (Congestion.OnlyACongestionControlMakesATrafficClassEcnCapable), and answered whether or not
/// anybody will obey.
TEST_F(DcCongestion, WithoutCongestionControlNotificationsAreIgnored) {
  dc::Dci& dci = pair_.make_dci();
  write(dci, marked_);
  EXPECT_EQ(counters(1).np_ecn_marked_roce_packets.value(), 1u);
  EXPECT_EQ(counters(1).np_cnp_sent.value(), 1u);
  EXPECT_EQ(counters(0).rp_cnp_ignored.value(), 1u);
  EXPECT_EQ(counters(0).rp_cnp_handled.value(), 0u);
}

/// READ responses are data too; the target is told, which has no rate.
TEST_F(DcCongestion, MarkedReadResponsesAreAnsweredAndTheTargetIgnoresIt) {
  dc::Dci& dci = pair_.make_dci();
  const dc::Dct& marking = pair_.make_dct([](auto& init) { init.traffic_class = kCe; });
  ASSERT_EQ(pair_.post(dci, marking, WrOpcode::rdma_write, 8), roce::PostResult::ok);
  EXPECT_THAT(pair_.statuses(1), Each(WcStatus::success));
  EXPECT_EQ(counters(0).np_cnp_sent.value(), 0u) << "acknowledgements load nothing";
  ASSERT_EQ(pair_.post(dci, marking, WrOpcode::rdma_read, 8), roce::PostResult::ok);
  EXPECT_THAT(pair_.statuses(1), Each(WcStatus::success));
  pair_.run_for(2 * kDelayNs);
  EXPECT_EQ(counters(0).np_cnp_sent.value(), 1u);
  EXPECT_EQ(counters(1).rp_cnp_ignored.value(), 1u);
}

/// WIRE-5: each refusal has its counter.
TEST_F(DcCongestion, ForgedNotificationsChangeNothing) {
  dc::Dci& dci = pair_.make_dci(use_dcqcn);
  write(dci, plain_);
  inject_cnp(dci.number(), second_address());
  EXPECT_EQ(drops(roce::DropReason::dc_unknown_session), 1u);
  inject_cnp(dci.number(), first_address_, 0x1234);
  EXPECT_EQ(drops(roce::DropReason::bad_pkey), 1u);
  inject_cnp(wire::Qpn{dci.number().value ^ 1u << 16}, first_address_);
  EXPECT_EQ(drops(roce::DropReason::unknown_qp), 1u);
  EXPECT_EQ(rate(dci), roce::kUnlimited);
  EXPECT_EQ(counters(0).rp_cnp_handled.value(), 0u);
  inject_cnp(dci.number(), first_address_);
  EXPECT_EQ(rate(dci), kLine / 2) << "only these";
}

/// DC-25: reset() of a stream begins anew.
TEST_F(DcCongestion, AResetBeginsAnew) {
  dc::Dci& dci = pair_.make_dci(use_dcqcn);
  write(dci, marked_);
  ASSERT_EQ(pair_.post(dci, dct_, WrOpcode::rdma_write, 8, 0, 0,
                       [this](auto& wr) {
                         wr.ah = plain_;
                         wr.rkey = roce::MemoryKey{0x12345600};
                       }),
            roce::PostResult::ok);
  EXPECT_THAT(pair_.statuses(1), Each(WcStatus::rem_access_err));
  ASSERT_TRUE(dci.reset());
  EXPECT_EQ(rate(dci), roce::kUnlimited);
  write(dci, marked_);
  EXPECT_EQ(rate(dci), kLine / 2);
}

TEST_F(DcCongestion, ParametersAreChecked) {
  dc::DciInit init = pair_.dci_init();
  use_dcqcn(init);
  init.congestion.dcqcn.dce_tcp_g = 0;
  EXPECT_FALSE(pair_.endpoint(0).create_dci(init));
}

}  // namespace
}  // namespace rockhopper::test::congestion_test
