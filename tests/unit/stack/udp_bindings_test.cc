// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_bindings.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::stack::udp_bindings_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Notes who is called, and has packets to send.
class Client final : public UdpClient {
 public:
  Client(std::string name, std::vector<std::string>& calls, std::uint16_t packets)
      : name_(std::move(name)), calls_(calls), packets_(packets) {}

  void begin_receive(std::span<rte_mbuf* const> packets, std::uint64_t now_ns) override {
    note("begin " + std::to_string(packets.size()) + " at " + std::to_string(now_ns));
  }
  void on_udp(const UdpDatagram& /*datagram*/, std::uint64_t /*now_ns*/) override {}
  void end_receive() override { note("end"); }
  [[nodiscard]] std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override {
    note("room " + std::to_string(count) + " at " + std::to_string(now_ns));
    std::uint16_t taken = 0;
    for (; taken < count && taken < packets_; ++taken) {
      packets[taken] = packet();
    }
    return taken;
  }
  [[nodiscard]] std::uint64_t next_deadline_ns() const override { return deadline_ns; }

  /// Returns one that is told from other clients' by its address: nobody looks into it.
  [[nodiscard]] rte_mbuf* packet() { return reinterpret_cast<rte_mbuf*>(this); }

  std::uint64_t deadline_ns = kNever;

 private:
  void note(const std::string& call) { calls_.push_back(name_ + ": " + call); }

  const std::string name_;
  std::vector<std::string>& calls_;
  const std::uint16_t packets_;
};

class UdpBindingsTest : public ::testing::Test {
 protected:
  std::vector<std::string> calls_;
  Client first_{"first", calls_, 2};
  Client second_{"second", calls_, 5};
  UdpBindings bindings_;
};

TEST_F(UdpBindingsTest, EachPortHasItsClient) {
  EXPECT_EQ(bindings_.find(4791), nullptr);
  bindings_.bind(4791, &first_);
  bindings_.bind(4792, &second_);
  EXPECT_EQ(bindings_.find(4791), &first_);
  EXPECT_EQ(bindings_.find(4792), &second_);
  EXPECT_EQ(bindings_.find(4793), nullptr);
}

TEST_F(UdpBindingsTest, ThePortIsTheLastOnes) {
  bindings_.bind(4791, &first_);
  bindings_.bind(4791, &second_);
  EXPECT_EQ(bindings_.find(4791), &second_);
  bindings_.bind(4791, nullptr);
  EXPECT_EQ(bindings_.find(4791), nullptr) << "the first one does not come back";
}

TEST_F(UdpBindingsTest, AllHearOfABurstInTheOrderInWhichTheyWereBound) {
  bindings_.bind(4792, &second_);
  bindings_.bind(4791, &first_);
  const std::array<rte_mbuf*, 3> packets{};
  bindings_.begin_receive(packets, 7);
  bindings_.end_receive();
  EXPECT_THAT(calls_, ElementsAre("second: begin 3 at 7", "first: begin 3 at 7", "second: end",
                                  "first: end"));
}

TEST_F(UdpBindingsTest, EachIsAskedForPacketsWithTheRoomThatTheOthersLeft) {
  bindings_.bind(4791, &first_);
  bindings_.bind(4792, &second_);
  std::array<rte_mbuf*, 4> packets{};
  EXPECT_EQ(bindings_.transmit(packets.data(), 4, 7), 4u);
  EXPECT_THAT(packets,
              ElementsAre(first_.packet(), first_.packet(), second_.packet(), second_.packet()));
  EXPECT_EQ(bindings_.transmit(packets.data(), 1, 8), 1u);
  EXPECT_THAT(calls_, ElementsAre("first: room 4 at 7", "second: room 2 at 7", "first: room 1 at 8",
                                  "second: room 0 at 8"));
}

TEST_F(UdpBindingsTest, TheNextDeadlineIsTheEarliest) {
  EXPECT_EQ(bindings_.next_deadline_ns(), kNever);
  bindings_.bind(4791, &first_);
  bindings_.bind(4792, &second_);
  EXPECT_EQ(bindings_.next_deadline_ns(), kNever);
  second_.deadline_ns = 9;
  EXPECT_EQ(bindings_.next_deadline_ns(), 9u);
  first_.deadline_ns = 5;
  EXPECT_EQ(bindings_.next_deadline_ns(), 5u);
}

TEST_F(UdpBindingsTest, WhoIsBoundNoMoreIsNotCalled) {
  bindings_.bind(4791, &first_);
  bindings_.bind(4791, nullptr);
  first_.deadline_ns = 5;
  std::array<rte_mbuf*, 1> packets{};
  bindings_.begin_receive(packets, 7);
  bindings_.end_receive();
  EXPECT_EQ(bindings_.transmit(packets.data(), 1, 7), 0u);
  EXPECT_EQ(bindings_.next_deadline_ns(), kNever);
  EXPECT_THAT(calls_, IsEmpty());
}

}  // namespace
}  // namespace rockhopper::stack::udp_bindings_test
