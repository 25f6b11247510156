// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/qp_telemetry.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/node/node.h"
#include "tests/support/must.h"

namespace rockhopper::test {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

/// An engine whose queue pairs are told of, without a port.
struct Observed {
  [[nodiscard]] roce::QueuePair& add() {
    return *must(node->engine().create_qp({.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get()}));
  }
  void remove(roce::QueuePair& qp) { node->engine().destroy_qp(&qp); }
  /// All, by the pages that one call gives.
  [[nodiscard]] std::vector<roce::QpSummary> all() const {
    std::vector<roce::QpSummary> found;
    std::size_t place = 0;
    do {
      place = telemetry.list(place, found);
    } while (place != 0);
    return found;
  }
  [[nodiscard]] std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> result;
    for (const roce::QpSummary& qp : all()) {
      result.push_back(qp.number.value);
    }
    return result;
  }

  QpTelemetry telemetry;
  std::unique_ptr<roce::CompletionQueue> cq = must(roce::CompletionQueue::create(64));
  std::unique_ptr<Node> node =
      must(Node::open({.port = NoPort{.mac = {{2, 0, 0, 0, 0, 1}}, .mtu = 4200},
                       .addresses = {must(InterfaceAddress::parse("10.0.0.1/24"))},
                       .engine = {.qp_observer = &telemetry}}));
  roce::ProtectionDomain pd = node->engine().allocate_pd();
};

TEST(QpTelemetry, TellsOfThoseThatAreThere) {
  Observed observed;
  EXPECT_THAT(observed.all(), IsEmpty());
  std::vector<roce::QueuePair*> qps;
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 200; ++i) {
    qps.push_back(&observed.add());
    numbers.push_back(qps.back()->number().value);
  }
  EXPECT_THAT(observed.numbers(), UnorderedElementsAreArray(numbers));
  for (int i = 0; i < 100; ++i) {
    observed.remove(*qps.back());
    qps.pop_back();
    numbers.pop_back();
  }
  EXPECT_THAT(observed.numbers(), UnorderedElementsAreArray(numbers));
}

TEST(QpTelemetry, TellsStateAndPsns) {
  Observed observed;
  roce::QueuePair& qp = observed.add();
  ASSERT_EQ(observed.all().size(), 1u);
  EXPECT_EQ(observed.all().front().state, roce::QpState::reset);
  EXPECT_EQ(observed.all().front().type, roce::QpType::rc);
  roce::QpAttributes attributes;
  attributes.path_mtu = roce::PathMtu::mtu_256;
  attributes.dest_qp_num = wire::Qpn{2};
  attributes.sq_psn = wire::Psn{0x123456};
  attributes.rq_psn = wire::Psn{0x654321};
  attributes.ah_attr = {.source = observed.node->address(),
                        .destination = stack::IpAddress::from_ipv4(0x0a000002)};
  must(qp.bring_up(attributes, roce::QpState::rts));
  const roce::QpSummary summary = observed.all().front();
  EXPECT_EQ(summary.number, qp.number());
  EXPECT_EQ(summary.state, roce::QpState::rts);
  EXPECT_EQ(summary.sent, attributes.sq_psn);
  EXPECT_EQ(summary.received, attributes.rq_psn);
}

/// What sanitizers watch: nobody reads a queue pair that has gone.
TEST(QpTelemetry, IsReadWhileQueuePairsComeAndGo) {
  Observed observed;
  roce::QueuePair& stays = observed.add();
  std::atomic<bool> over = false;
  std::atomic<bool> seen_all = true;
  std::thread reader([&] {
    while (!over.load()) {
      bool seen = false;
      for (const roce::QpSummary& qp : observed.all()) {
        seen = seen || qp.number == stays.number();
      }
      if (!seen) seen_all.store(false);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    observed.remove(observed.add());
  }
  over.store(true);
  reader.join();
  EXPECT_TRUE(seen_all.load());
}

}  // namespace
}  // namespace rockhopper::test
