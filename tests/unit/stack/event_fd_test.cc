// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/event_fd.h"

#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

namespace rockhopper::test {
namespace {

bool readable(const stack::EventFd& event, int timeout_ms) {
  pollfd descriptor{.fd = event.fd(), .events = POLLIN, .revents = 0};
  return poll(&descriptor, 1, timeout_ms) == 1;
}

TEST(EventFds, AreReadableFromNotifyToTake) {
  const auto event = stack::EventFd::create().value();
  EXPECT_FALSE(readable(*event, 0));
  EXPECT_FALSE(event->take());
  event->notify();
  event->notify();
  EXPECT_TRUE(readable(*event, 0));
  EXPECT_TRUE(event->take());
  EXPECT_FALSE(event->take()) << "one take answers all before it";
  EXPECT_FALSE(readable(*event, 0));
}

TEST(EventFds, WakeAnotherThread) {
  const auto event = stack::EventFd::create().value();
  bool woken = false;
  std::thread sleeper([&] { woken = readable(*event, 60'000); });
  event->notify();
  sleeper.join();
  EXPECT_TRUE(woken);
}

}  // namespace
}  // namespace rockhopper::test
