// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What waits behind an acquire: without an engine.
#include "roce/rc/parked_requests.h"

#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stack/timing_wheel.h"
#include "tests/unit/roce/received_packet.h"

namespace rockhopper::test::parked_requests_test {
namespace {

using roce::HeldPacketBudget;
using roce::rc::ParkedRequests;
using roce::rc::psns_of;
using ::testing::ElementsAre;
using wire::Opcode;
using wire::Psn;

constexpr std::uint32_t kMtu = 256;
constexpr Psn kAcquire{0xfffffe};  // so that PSNs wrap

wire::Headers headers_of(Opcode opcode, Psn psn) {
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(opcode);
  headers.bth.psn = psn;
  headers.reth = {.va = 0x1000, .rkey = 1, .length = 0};
  return headers;
}

class ParkedRequestsTest : public ::testing::Test {
 protected:
  ParkedRequestsTest() {
    service_.add_queue_pair();
    wheel_.advance(now_ns_);
  }
  ~ParkedRequestsTest() override {
    parked_.drop();
    service_.remove_queue_pair();
  }

  /// Parks a WRITE, or a READ whose responses take `psns`.
  [[nodiscard]] bool hold(Psn psn, std::uint32_t psns = 0) {
    wire::Headers headers =
        headers_of(psns == 0 ? Opcode::rc_rdma_write_only : Opcode::rc_rdma_read_request, psn);
    headers.reth.length = psns * kMtu;
    return parked_.hold(ReceivedPacket(headers).rx(), kMtu);
  }
  /// The PSNs that come out from `psn` on, each following the one before.
  std::vector<std::uint32_t> deliver_from(Psn psn) {
    std::vector<std::uint32_t> delivered;
    while (parked_.psns() > 0) {
      const std::uint32_t before = parked_.psns();
      if (!parked_.deliver(psn, kMtu, [&](const roce::RxPacket& packet) {
            delivered.push_back(packet.headers.bth.psn.value);
          })) {
        break;
      }
      psn = psn + (before - parked_.psns());
    }
    return delivered;
  }

  std::uint64_t now_ns_ = 1'000'000;
  stack::TimingWheel wheel_{1024};
  HeldPacketBudget budget_{.limit = 8};
  roce::lock::Service service_{{.max_parked_scopes = 1}, wheel_, now_ns_, budget_};
  ParkedRequests parked_{service_};
};

TEST(PsnsOf, ReadsTakeAsManyAsTheirResponses) {
  wire::Headers headers = headers_of(Opcode::rc_rdma_read_request, kAcquire);
  headers.opcode = &wire::info(Opcode::rc_rdma_read_request);
  EXPECT_EQ(psns_of(headers, kMtu), 1u) << "of no bytes";
  headers.reth.length = kMtu;
  EXPECT_EQ(psns_of(headers, kMtu), 1u);
  headers.reth.length = kMtu + 1;
  EXPECT_EQ(psns_of(headers, kMtu), 2u);
  headers.opcode = &wire::info(Opcode::rc_rdma_write_only);
  EXPECT_EQ(psns_of(headers, kMtu), 1u);
}

TEST_F(ParkedRequestsTest, NothingAtFirst) {
  EXPECT_EQ(parked_.psns(), 0u);
  EXPECT_FALSE(parked_.has_dropped());
  EXPECT_FALSE(parked_.is_resuming());
}

TEST_F(ParkedRequestsTest, AcquireThatWaitsCounts) {
  ASSERT_TRUE(parked_.begin());
  EXPECT_EQ(parked_.psns(), 1u);
  parked_.end();
  EXPECT_EQ(parked_.psns(), 0u);
}

TEST_F(ParkedRequestsTest, WhatIsBehindComesOutInOrder) {
  ASSERT_TRUE(parked_.begin());
  ASSERT_TRUE(hold(kAcquire + 1));
  ASSERT_TRUE(hold(kAcquire + 2, 3));
  ASSERT_TRUE(hold(kAcquire + 5));
  EXPECT_EQ(parked_.psns(), 6u);
  parked_.end();
  EXPECT_THAT(deliver_from(kAcquire + 1), ElementsAre(0xffffffu, 0u, 3u));
  EXPECT_EQ(parked_.psns(), 0u);
}

TEST_F(ParkedRequestsTest, OneOfThemMayWaitInItsTurn) {
  ASSERT_TRUE(parked_.begin());
  ASSERT_TRUE(hold(kAcquire + 1));
  ASSERT_TRUE(hold(kAcquire + 2));
  parked_.end();
  ASSERT_TRUE(parked_.deliver(kAcquire + 1, kMtu,
                              [&](const roce::RxPacket&) { EXPECT_TRUE(parked_.begin()); }));
  EXPECT_EQ(parked_.psns(), 2u) << "it, and the one behind it";
}

TEST_F(ParkedRequestsTest, WhatIsExecutedMayDropTheRest) {
  ASSERT_TRUE(parked_.begin());
  ASSERT_TRUE(hold(kAcquire + 1));
  ASSERT_TRUE(hold(kAcquire + 2));
  parked_.end();
  ASSERT_TRUE(parked_.deliver(kAcquire + 1, kMtu, [&](const roce::RxPacket&) { parked_.drop(); }));
  EXPECT_EQ(parked_.psns(), 0u);
  EXPECT_EQ(budget_.used, 0u);
}

TEST_F(ParkedRequestsTest, WithoutAPlaceNothingWaits) {
  service_.add_queue_pair();
  ParkedRequests other(service_);
  ASSERT_TRUE(other.begin());
  EXPECT_FALSE(parked_.begin());
  EXPECT_EQ(parked_.psns(), 0u);
  other.drop();
  EXPECT_TRUE(parked_.begin()) << "the place is given back";
  parked_.drop();
  service_.remove_queue_pair();
}

TEST_F(ParkedRequestsTest, WithoutRoomAPacketIsDropped) {
  ASSERT_TRUE(parked_.begin());
  std::uint32_t held = 0;
  while (hold(kAcquire + held + 1)) {
    ++held;
  }
  EXPECT_GT(held, 0u);
  EXPECT_LT(held, budget_.limit);
  EXPECT_EQ(parked_.psns(), held + 1);
  EXPECT_TRUE(parked_.has_dropped());
  parked_.forget_dropped();
  EXPECT_FALSE(parked_.has_dropped());
}

TEST_F(ParkedRequestsTest, DropLetsGoOfEverything) {
  ASSERT_TRUE(parked_.begin());
  ASSERT_TRUE(hold(kAcquire + 1));
  EXPECT_EQ(budget_.used, 1u);
  parked_.drop();
  EXPECT_EQ(budget_.used, 0u);
  EXPECT_EQ(parked_.psns(), 0u);
  parked_.drop();  // and once more
}

#ifndef NDEBUG
using ParkedRequestsDeathTest = ParkedRequestsTest;

TEST_F(ParkedRequestsDeathTest, NothingIsParkedWhereNothingWaits) {
  EXPECT_DEATH((void)hold(kAcquire + 1), "psns_");
}

TEST_F(ParkedRequestsDeathTest, NoAcquireEndsTwice) {
  ASSERT_TRUE(parked_.begin());
  parked_.end();
  EXPECT_DEATH(parked_.end(), "psns_");
}
#endif

}  // namespace
}  // namespace rockhopper::test::parked_requests_test
