// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// From an injection FIFO to a route and back, without an engine.
#include "apps/services/ami/sender.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/completion_id.h"
#include "tests/unit/ami/fake_route.h"

namespace rockhopper::ami {
namespace {

class SenderTest : public ::testing::Test {
 protected:
  SenderTest() {
    parts_.ports.push_back(std::make_unique<LanePort>(
        LaneConfig{.self = 9, .max_endpoints = 4, .fifo = {.slots = 256}}, 0));
    port().buffer_bytes = 4096;
    parts_.peers.push_back(std::make_unique<Peer>(port(), EndpointId{1}, 0));
    port().peers[1] = parts_.peers[0].get();
    peer().route = std::make_unique<test::FakeRoute>();
  }
  LanePort& port() { return *parts_.ports[0]; }
  Peer& peer() { return *parts_.peers[0]; }
  test::FakeRoute& route() { return static_cast<test::FakeRoute&>(*peer().route); }
  std::vector<test::FakeRoute::Request>& requests() { return route().requests; }

  static Descriptor put(std::uint64_t remote = 0) {
    return {.endpoint = 1, .length = 10, .local_addr = 64, .remote_addr = remote};
  }
  static Descriptor message(Level level, std::uint8_t flags = Descriptor::kImmediate) {
    return {.operation = Operation::message,
            .level = level,
            .flags = flags,
            .endpoint = 1,
            .length = 4};
  }
  void inject(const Descriptor& descriptor, bool told = false) {
    const std::array<std::byte, 4> immediate{};
    const Callback callback{
        .function = told ? &SenderTest::on_complete : nullptr, .context = this, .cookie = 0};
    ASSERT_TRUE(port().lane.fifo.inject(descriptor, immediate, callback));
  }
  /// A turn of the adapter and one of the application.
  void turn() {
    (void)sender_.take_descriptors(port());
    sender_.drain_all();
    (void)port().lane.fifo.advance();
  }
  /// The request with that number is complete.
  void complete(std::size_t number, roce::WcStatus status = roce::WcStatus::success) {
    const CompletionId id = CompletionId::from(requests().at(number).wr.wr_id);
    ASSERT_EQ(id.kind, CompletionId::transfer);
    sender_.on_sent(id.value, status);
    (void)port().lane.fifo.advance();
  }
  static void on_complete(void* self, std::uint64_t, Status status) {
    static_cast<SenderTest*>(self)->told_.push_back(status);
  }

  AdapterParts parts_{.config = {.transfers = 8}};
  Sender sender_{parts_};
  std::vector<Status> told_;
};

using Told = std::vector<Status>;

TEST_F(SenderTest, WhatNobodyAsksForIsNotRemembered) {
  inject(put(1));
  inject(put(2));
  turn();
  ASSERT_EQ(requests().size(), 2u);
  EXPECT_EQ(requests()[0].wr.remote_addr, 1u);
  EXPECT_EQ(requests()[1].wr.remote_addr, 2u);
  EXPECT_EQ(CompletionId::from(requests()[0].wr.wr_id).kind, CompletionId::untracked);
  EXPECT_TRUE(sender_.idle());
}

TEST_F(SenderTest, ACallbackIsCalledWhenItIsComplete) {
  inject(put(), true);
  turn();
  EXPECT_FALSE(sender_.idle());
  EXPECT_TRUE(told_.empty());
  complete(0);
  EXPECT_EQ(told_, Told{Status::ok});
  EXPECT_TRUE(sender_.idle());
}

TEST_F(SenderTest, AFailureIsTold) {
  inject(put(), true);
  turn();
  complete(0, roce::WcStatus::rem_access_err);
  EXPECT_EQ(told_, Told{Status::refused});
  EXPECT_FALSE(peer().failed);
}

TEST_F(SenderTest, ShortMessagesShareASend) {
  for (int i = 0; i < 3; ++i) {
    inject(message(Level::local));
  }
  inject(put());
  turn();
  ASSERT_EQ(requests().size(), 2u);
  Messages messages(requests()[0].bytes);
  int count = 0;
  while (messages.next()) {
    ++count;
  }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(requests()[1].wr.opcode, roce::WrOpcode::rdma_write) << "behind them, as injected";
}

TEST_F(SenderTest, WhatHasNoRoomWaitsInOrder) {
  route().takes = 1;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    inject(put(i));
  }
  turn();
  EXPECT_EQ(requests().size(), 1u);
  route().says = Posted::yes;
  turn();
  ASSERT_EQ(requests().size(), 4u);
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(requests()[i].wr.remote_addr, i + 1);
  }
  EXPECT_GT(parts_.counters.transfers_waited.value(), 0u);
}

TEST_F(SenderTest, WhatCannotBeRememberedStaysInTheFifo) {
  route().says = Posted::full;
  for (std::uint64_t i = 0; i < 20; ++i) {
    inject(put(i));
  }
  turn();
  EXPECT_NE(port().lane.fifo.front(), nullptr);
  route().says = Posted::yes;
  for (int i = 0; i < 20; ++i) {
    turn();
  }
  ASSERT_EQ(requests().size(), 20u);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(requests()[i].wr.remote_addr, i);
  }
}

TEST_F(SenderTest, AReplyEndsWhatWantsOne) {
  inject(message(Level::handled), true);
  turn();
  complete(0);
  EXPECT_TRUE(told_.empty()) << "the handler has not returned";
  Messages messages(requests()[0].bytes);
  const auto sent = messages.next();
  ASSERT_TRUE(sent);
  EXPECT_TRUE(sent->wants_reply);
  EXPECT_TRUE(sender_.on_reply(peer(), {.tag = sent->tag, .status = Status::unknown_handler}));
  (void)port().lane.fifo.advance();
  EXPECT_EQ(told_, Told{Status::unknown_handler});
  EXPECT_FALSE(sender_.on_reply(peer(), {.tag = sent->tag})) << "there is one reply";
}

// AM-22: a peer that does not answer ends all that it has, and all that comes.
TEST_F(SenderTest, APeerThatFailsEndsAll) {
  inject(put(), true);
  inject(message(Level::handled), true);
  turn();
  complete(0, roce::WcStatus::retry_exc_err);
  EXPECT_TRUE(peer().failed);
  complete(1, roce::WcStatus::wr_flush_err);
  EXPECT_EQ(told_, (Told{Status::unreachable, Status::unreachable}));
  inject(put(), true);
  turn();
  EXPECT_EQ(told_.back(), Status::unreachable);
  EXPECT_EQ(requests().size(), 2u);
  EXPECT_TRUE(sender_.idle());
  Arrival arrival;
  ASSERT_TRUE(port().lane.arrivals.pop(arrival));
  EXPECT_EQ(arrival.kind, Arrival::Kind::peer_failed);
}

TEST_F(SenderTest, ABrokenRouteFailsThePeer) {
  route().says = Posted::broken;
  inject(put(), true);
  turn();
  EXPECT_EQ(told_, Told{Status::unreachable});
  EXPECT_TRUE(peer().failed);
}

TEST_F(SenderTest, AnUnknownPeerIsUnreachable) {
  Descriptor descriptor = put();
  descriptor.endpoint = 2;
  inject(descriptor, true);
  turn();
  EXPECT_EQ(told_, Told{Status::unreachable});
}

TEST_F(SenderTest, OwedRepliesGoFirst) {
  peer().replies.accept(2);
  sender_.owe(peer(), {.tag = 5});
  sender_.owe(peer(), {.tag = 6, .status = Status::unknown_handler});
  inject(put());
  turn();
  ASSERT_EQ(requests().size(), 2u);
  Messages messages(requests()[0].bytes);
  const auto reply = messages.next();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->type, MessageHeader::Type::reply);
  EXPECT_EQ(reply->length, 2u);
  EXPECT_EQ(requests()[1].wr.opcode, roce::WrOpcode::rdma_write);
}

TEST_F(SenderTest, NoMoreMessagesThanMayBeUnanswered) {
  for (std::size_t i = 0; i < kMaxUnanswered; ++i) {
    peer().unanswered.on_posted(false);
  }
  inject(message(Level::handled), true);
  turn();
  EXPECT_TRUE(requests().empty());
  peer().unanswered.on_ended(false);
  sender_.drain_later(peer());
  turn();
  EXPECT_EQ(requests().size(), 1u);
}

TEST_F(SenderTest, WhatIsClosedIsCanceled) {
  route().says = Posted::full;
  inject(put(), true);
  turn();
  sender_.end_all(peer(), Status::canceled);
  (void)port().lane.fifo.advance();
  EXPECT_EQ(told_, Told{Status::canceled});
  EXPECT_FALSE(peer().failed);
}

}  // namespace
}  // namespace rockhopper::ami
