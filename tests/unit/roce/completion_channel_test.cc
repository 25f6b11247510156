// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Completion channels and the seam through which sleepers are woken.
#include "roce/completion_channel.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <poll.h>

#include "stack/event_fd.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::completion_channel_test {
namespace {

using roce::CompletionChannel;
using roce::CompletionQueue;
using roce::Notify;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kSendPsn = 0x001000;

class CountingNotifier final : public stack::Notifier {
 public:
  void notify() noexcept override { ++count; }
  int count = 0;
};

void receive_one(Rig& rig, std::uint32_t psn) {
  rig.post_recv(psn, 8);
  rig.inject(packet(Opcode::rc_send_only, psn, pattern(8)));
}

void send_one(Rig& rig, std::uint32_t psn) {
  rig.post_send(psn, roce::WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(ack(psn));
}

TEST(CompletionChannels, GiveEachEventOnceOldestFirst) {
  CountingNotifier notifier;
  CompletionChannel channel(&notifier);
  Rig rig;
  EXPECT_EQ(channel.get_event(), nullptr);
  rig.recv_cq().request_notify(Notify::next, &channel);
  rig.send_cq().request_notify(Notify::next, &channel);
  send_one(rig, kSendPsn);
  receive_one(rig, kPsn);
  EXPECT_EQ(notifier.count, 1) << "the second event finds the sleeper awake";
  EXPECT_EQ(channel.get_event(), &rig.send_cq());
  EXPECT_EQ(channel.get_event(), &rig.recv_cq());
  EXPECT_EQ(channel.get_event(), nullptr);
  receive_one(rig, kPsn + 1);
  EXPECT_EQ(channel.get_event(), nullptr) << "not armed";
  rig.recv_cq().request_notify(Notify::next, &channel);
  receive_one(rig, kPsn + 2);
  EXPECT_EQ(notifier.count, 2);
  EXPECT_EQ(channel.get_event(), &rig.recv_cq());
}

TEST(CompletionChannels, QueueArmedAgainBeforeItsEventIsTakenHasOne) {
  CompletionChannel channel(nullptr);
  Rig rig;
  for (std::uint32_t i = 0; i < 3; ++i) {
    rig.recv_cq().request_notify(Notify::next, &channel);
    receive_one(rig, kPsn + i);
  }
  EXPECT_EQ(channel.get_event(), &rig.recv_cq());
  EXPECT_EQ(channel.get_event(), nullptr);
}

TEST(CompletionChannels, DestroyedQueueTakesItsEventAlong) {
  CompletionChannel channel(nullptr);
  {
    Rig rig;
    rig.recv_cq().request_notify(Notify::next, &channel);
    receive_one(rig, kPsn);
  }
  EXPECT_EQ(channel.get_event(), nullptr);
}

TEST(CompletionChannels, MayGoBeforeQueuesWithEvents) {
  Rig rig;
  {
    CompletionChannel channel(nullptr);
    rig.recv_cq().request_notify(Notify::next, &channel);
    receive_one(rig, kPsn);
  }
  CompletionChannel other(nullptr);
  rig.recv_cq().request_notify(Notify::next, &other);
  receive_one(rig, kPsn + 1);
  EXPECT_EQ(other.get_event(), &rig.recv_cq());
}

/// The whole way: one thread sleeps, the engine's thread receives.
TEST(CompletionChannels, SleeperOnAnEventFdIsWoken) {
  const auto event_fd = stack::EventFd::create().value();
  CompletionChannel channel(event_fd.get());
  Rig rig;
  std::atomic<int> woken{0};
  std::thread sleeper([&] {
    pollfd sleep{.fd = event_fd->fd(), .events = POLLIN, .revents = 0};
    constexpr int kGenerousMs = 60'000;
    for (int i = 0; i < 3 && poll(&sleep, 1, kGenerousMs) == 1; ++i) {
      event_fd->take();
      ++woken;
      woken.notify_all();
    }
  });
  for (int i = 0; i < 3; ++i) {
    rig.recv_cq().request_notify(Notify::next, &channel);
    receive_one(rig, kPsn + static_cast<std::uint32_t>(i));
    woken.wait(i);
    EXPECT_EQ(channel.get_event(), &rig.recv_cq());
  }
  sleeper.join();
  EXPECT_EQ(woken, 3);
}

TEST(AsyncEvents, NotifierIsCalledForTheFirstOfThem) {
  CountingNotifier notifier;
  Rig rig({.async_notifier = &notifier});
  ASSERT_TRUE(rig.qp().modify({.qp_state = roce::QpState::err}, roce::kQpState));
  EXPECT_EQ(notifier.count, 0) << "the application's own wish is no event";
  rig.engine().set_port_state(roce::PortState::down);
  rig.engine().set_port_state(roce::PortState::active);
  EXPECT_EQ(notifier.count, 1);
  EXPECT_EQ(rig.async_events().size(), 2u);
  rig.engine().set_port_state(roce::PortState::down);
  EXPECT_EQ(notifier.count, 2);
}

}  // namespace
}  // namespace rockhopper::test::completion_channel_test
