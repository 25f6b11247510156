// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// One thread plays both sides of an injection FIFO: what is in which slot, what is listed, what is
// called (AM-1 to AM-4, AM-6, AM-8 to AM-12, AM-20 to AM-24, AM-30 to AM-32).
#include "apps/services/ami/injection_fifo.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::ami {
namespace {

using Type = Descriptor::Type;

/// A FIFO, the callbacks that were called, and an adapter that does what it is told.
class Fifo {
 public:
  explicit Fifo(std::uint32_t slots, CompletionMode mode = CompletionMode::mask)
      : fifo_({.completion = mode, .slots = slots, .immediate_bytes = 16}) {}

  bool inject(std::uint64_t cookie, bool callback) {
    Descriptor descriptor;
    descriptor.value = cookie;
    return fifo_.inject(
        descriptor, {},
        {.function = callback ? &on_end : nullptr, .context = this, .cookie = cookie});
  }
  /// What is at the adapter's end: the type, and the cookie of a transfer, the bits of a
  /// completion.
  struct Seen {
    std::uint64_t place;
    Type type;
    std::uint64_t value;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  std::vector<Seen> take(std::size_t most = SIZE_MAX) {
    std::vector<Seen> all;
    const Descriptor* front = nullptr;
    while (all.size() < most && (front = fifo_.front()) != nullptr) {
      all.push_back({fifo_.front_place(), front->type, front->value});
      fifo_.pop();
    }
    return all;
  }
  void complete(std::uint64_t place, Status status = Status::ok) { fifo_.complete(place, status); }
  std::size_t advance() { return fifo_.advance(); }

  InjectionFifo<>& fifo() { return fifo_; }
  std::vector<std::pair<std::uint64_t, Status>> called;
  std::function<void(std::uint64_t)> in_callback;

 private:
  static void on_end(void* context, std::uint64_t cookie, Status status) {
    auto& self = *static_cast<Fifo*>(context);
    self.called.emplace_back(cookie, status);
    if (self.in_callback) self.in_callback(cookie);
  }

  InjectionFifo<> fifo_;
};

/// AM-1 to AM-4, AM-9: with a callback the pair, without it the transfer and nothing else.
TEST(InjectionFifo, ACompletionDescriptorIsInTheVeryNextSlot) {
  Fifo fifo(8);
  ASSERT_TRUE(fifo.inject(10, false));
  ASSERT_TRUE(fifo.inject(11, true));
  ASSERT_TRUE(fifo.inject(12, false));
  ASSERT_TRUE(fifo.inject(13, true));
  EXPECT_EQ(fifo.take(), (std::vector<Fifo::Seen>{{0, Type::transfer, 10},
                                                  {1, Type::transfer, 11},
                                                  {2, Type::completion, 1u << 2},
                                                  {3, Type::transfer, 12},
                                                  {4, Type::transfer, 13},
                                                  {5, Type::completion, 1u << 5}}));
  EXPECT_EQ(fifo.fifo().pending(), 2u);
}

/// AM-20: slot M-1, then 0; and half a pair is never there.
TEST(InjectionFifo, APairGoesRoundTheEndAndNeverInHalf) {
  Fifo fifo(4);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(fifo.inject(i, false));
  }
  EXPECT_FALSE(fifo.inject(3, true)) << "one slot is free, two are wanted";
  EXPECT_EQ(fifo.fifo().pending(), 0u);
  EXPECT_EQ(fifo.take().size(), 3u) << "what had no room left no trace";
  ASSERT_TRUE(fifo.inject(3, true));
  EXPECT_EQ(fifo.take(),
            (std::vector<Fifo::Seen>{{3, Type::transfer, 3}, {4, Type::completion, 1u << 0}}));
  EXPECT_TRUE(fifo.inject(4, false)) << "not the pair's";
  fifo.complete(4);
  EXPECT_EQ(fifo.advance(), 1u);
}

/// AM-6, AM-8: who is called is who is complete, and nobody else.
TEST(InjectionFifo, CallsThoseWhoseBitIsSet) {
  Fifo fifo(16);
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(fifo.inject(100 + i, true));
  }
  fifo.take();
  EXPECT_EQ(fifo.advance(), 0u);
  // AM-21: in any order.
  fifo.complete(7, Status::refused);
  fifo.complete(3);
  EXPECT_EQ(fifo.advance(), 2u);
  const std::set<std::pair<std::uint64_t, Status>> called(fifo.called.begin(), fifo.called.end());
  EXPECT_EQ(called, (std::set<std::pair<std::uint64_t, Status>>{{101, Status::ok},
                                                                {103, Status::refused}}));
  EXPECT_EQ(fifo.advance(), 0u) << "once";
  EXPECT_EQ(fifo.fifo().pending(), 3u);
}

/// AM-12, AM-32: the same calls, but in order, and no completion descriptors.
TEST(InjectionFifo, ACounterCallsInOrder) {
  Fifo fifo(8, CompletionMode::counter);
  ASSERT_TRUE(fifo.inject(100, true));
  ASSERT_TRUE(fifo.inject(101, false));
  ASSERT_TRUE(fifo.inject(102, true));
  EXPECT_EQ(fifo.take(),
            (std::vector<Fifo::Seen>{
                {0, Type::transfer, 100}, {1, Type::transfer, 101}, {2, Type::transfer, 102}}));
  fifo.complete(2, Status::refused);
  fifo.complete(1);
  EXPECT_EQ(fifo.advance(), 0u) << "the first is not complete";
  fifo.complete(0);
  EXPECT_EQ(fifo.advance(), 2u);
  EXPECT_EQ(fifo.called, (std::vector<std::pair<std::uint64_t, Status>>{{100, Status::ok},
                                                                        {102, Status::refused}}));
}

class BothModes : public ::testing::TestWithParam<CompletionMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, BothModes,
                         ::testing::Values(CompletionMode::mask, CompletionMode::counter));

/// AM-10, AM-24: the slots are free again, but the place in the list is not.
TEST_P(BothModes, AListedCallbackIsNeverOverwritten) {
  Fifo fifo(4, GetParam());
  const bool mask = GetParam() == CompletionMode::mask;
  ASSERT_TRUE(fifo.inject(1, true));
  fifo.take();
  std::uint64_t injected = mask ? 2 : 1;
  for (; injected < 4; ++injected) {  // to the end of the FIFO
    ASSERT_TRUE(fifo.inject(0, false));
    fifo.take();
    if (!mask) fifo.complete(injected);
  }
  EXPECT_FALSE(fifo.inject(2, true)) << "it would be listed where 1 is";
  EXPECT_EQ(fifo.fifo().pending(), 1u);
  fifo.complete(mask ? 1 : 0);
  EXPECT_FALSE(fifo.inject(2, true)) << "complete, but not called";
  EXPECT_EQ(fifo.advance(), 1u);
  EXPECT_EQ(fifo.called.back().first, 1u);
  EXPECT_TRUE(fifo.inject(2, true));
}

/// AM-11, AM-22: over many rounds each callback once, with its own status, and nothing is left.
TEST_P(BothModes, EachOnceOverManyRounds) {
  for (const std::uint32_t slots : {2u, 4u, 8u, 64u}) {
    Fifo fifo(slots, GetParam());
    constexpr std::uint64_t kCount = 10'000;
    std::uint64_t with_callback = 0;
    std::uint64_t next = 0;
    std::uint64_t transfers = 0;
    while (next < kCount || fifo.fifo().pending() > 0) {
      if (next < kCount && fifo.inject(next, next % 3 != 0)) {
        with_callback += next % 3 != 0 ? 1 : 0;
        ++next;
        continue;
      }
      for (const Fifo::Seen& seen : fifo.take()) {
        if (seen.type == Type::transfer) ++transfers;
        if (GetParam() == CompletionMode::counter || seen.type == Type::completion) {
          fifo.complete(seen.place, (transfers - 1) % 2 == 0 ? Status::ok : Status::refused);
        }
      }
      fifo.advance();
    }
    EXPECT_EQ(fifo.called.size(), with_callback);
    std::set<std::uint64_t> cookies;
    for (const auto& [cookie, status] : fifo.called) {
      EXPECT_NE(cookie % 3, 0u);
      EXPECT_EQ(status, cookie % 2 == 0 ? Status::ok : Status::refused) << cookie;
      cookies.insert(cookie);
    }
    EXPECT_EQ(cookies.size(), with_callback);
    EXPECT_LE(fifo.take().size(), 1u) << "the last has no callback";
    EXPECT_EQ(fifo.advance(), 0u);
  }
}

/// AM-23: the callback finds its own place free, may inject, and advance() in it calls nobody.
TEST_P(BothModes, ACallbackMayInjectAndAdvance) {
  Fifo fifo(2, GetParam());
  std::uint64_t injected_within = 0;
  std::size_t called_within = 0;
  fifo.in_callback = [&](std::uint64_t cookie) {
    if (cookie >= 1000) return;
    if (fifo.inject(cookie + 1, true)) ++injected_within;
    for (const Fifo::Seen& seen : fifo.take()) {
      if (GetParam() == CompletionMode::counter || seen.type == Type::completion) {
        fifo.complete(seen.place);
      }
    }
    called_within += fifo.advance();
  };
  ASSERT_TRUE(fifo.inject(0, true));
  for (const Fifo::Seen& seen : fifo.take()) {
    if (GetParam() == CompletionMode::counter || seen.type == Type::completion) {
      fifo.complete(seen.place);
    }
  }
  while (fifo.advance() > 0) {
  }
  EXPECT_EQ(injected_within, 1000u) << "M = 2: without its own place it has none";
  EXPECT_EQ(called_within, 0u);
  ASSERT_EQ(fifo.called.size(), 1001u);
  for (std::uint64_t i = 0; i <= 1000; ++i) {
    EXPECT_EQ(fifo.called[i].first, i);
  }
}

/// AM-31: what is with the slot is the application's bytes as they were.
TEST_P(BothModes, ImmediateBytesAreCopied) {
  Fifo fifo(4, GetParam());
  std::array<std::byte, 16> bytes;
  for (unsigned round = 0; round < 10; ++round) {
    bytes.fill(static_cast<std::byte>(round));
    ASSERT_TRUE(fifo.fifo().inject({}, bytes, {}));
    bytes.fill(std::byte{0xff});
    ASSERT_NE(fifo.fifo().front(), nullptr);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_EQ(fifo.fifo().immediate()[i], static_cast<std::byte>(round));
    }
    const std::uint64_t place = fifo.fifo().front_place();
    fifo.fifo().pop();
    if (GetParam() == CompletionMode::counter) fifo.complete(place);
  }
}

/// AM-12: the counter's adapter remembers one transfer a slot, and waits for the oldest.
TEST(InjectionFifo, ACounterTakesNoMoreThanItRemembers) {
  Fifo fifo(4, CompletionMode::counter);
  std::uint64_t next = 0;
  std::size_t taken = 0;
  for (int round = 0; round < 3; ++round) {
    while (fifo.inject(next, false)) {
      ++next;
    }
    taken += fifo.take().size();
  }
  EXPECT_EQ(taken, 4u) << "none of them is complete";
  fifo.complete(0);
  EXPECT_EQ(fifo.take().size(), 1u);
}

#ifndef NDEBUG
/// AM-30: a debug build says so.
TEST(InjectionFifoDeathTest, ASecondProducerIsFoundOut) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Fifo fifo(8);
        (void)fifo.inject(0, false);
        std::thread([&] { (void)fifo.inject(1, false); }).join();
      },
      "one producer");
}
#endif

/// AM-30: which thread it is does not matter, if only one injects.
TEST(InjectionFifo, TheProducerMayBeAnyThread) {
  Fifo fifo(8);
  std::thread([&] { EXPECT_TRUE(fifo.inject(1, false) && fifo.inject(2, true)); }).join();
  EXPECT_EQ(fifo.take().size(), 3u);
}

}  // namespace
}  // namespace rockhopper::ami
