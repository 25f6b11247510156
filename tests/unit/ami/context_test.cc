// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The application's interface above a FIFO, with an adapter that does what the test says (AM-8,
// AM-10, AM-13, AM-22, AM-23, AM-26 to AM-28, AM-31).
#include "apps/services/ami/context.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/batch.h"
#include "apps/services/ami/message.h"

namespace rockhopper::ami {
namespace {

struct Call {
  std::uint64_t cookie;
  Status status;
};

class ContextTest : public ::testing::TestWithParam<CompletionMode> {
 protected:
  static constexpr std::uint32_t kSlots = 8;
  static constexpr std::uint32_t kQueue = 80;  ///< ten times the FIFO

  static LaneConfig config() {
    LaneConfig made;
    made.self = 5;
    made.fifo.completion = GetParam();
    made.fifo.slots = kSlots;
    made.fifo.immediate_bytes = 128;
    made.receive_buffers = 8;
    made.rendezvous_buffers = 2;
    return made;
  }

  Completion with_callback(std::uint64_t cookie, Level level = Level::remote) {
    return {.level = level,
            .callback = {.function =
                             [](void* context, std::uint64_t cookie_now, Status status) {
                               auto& self = *static_cast<ContextTest*>(context);
                               self.called_.push_back({cookie_now, status});
                               if (self.in_callback_) self.in_callback_(cookie_now);
                             },
                         .context = this,
                         .cookie = cookie}};
  }
  /// A put of 8 bytes that say which one it is, to the address of that number.
  Injected put(std::uint64_t number, bool callback) {
    std::uint64_t bytes = number;
    const Injected injected =
        context_.put(std::as_bytes(std::span(&bytes, 1)), {.endpoint = 1, .addr = number},
                     callback ? with_callback(number) : Completion{});
    bytes = UINT64_MAX;
    return injected;
  }
  /// The adapter's turn: takes `most` descriptors; completes their transfers at once.
  void adapter(std::size_t most = SIZE_MAX, Status status = Status::ok) {
    InjectionFifo<>& fifo = lane_.fifo;
    const Descriptor* front = nullptr;
    for (; most > 0 && (front = fifo.front()) != nullptr; --most) {
      const bool completion = front->type == Descriptor::Type::completion;
      const std::uint64_t place = fifo.front_place();
      if (!completion) {
        taken_.push_back(*front);
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, fifo.immediate(), sizeof bytes);
        immediates_.push_back(bytes);
      }
      fifo.pop();
      if (completion || GetParam() == CompletionMode::counter) fifo.complete(place, status);
    }
  }

  Lane lane_{config()};
  Context context_{lane_, kQueue};
  std::vector<Call> called_;
  std::function<void(std::uint64_t)> in_callback_;
  std::vector<Descriptor> taken_;
  std::vector<std::uint64_t> immediates_;
};

INSTANTIATE_TEST_SUITE_P(Modes, ContextTest,
                         ::testing::Values(CompletionMode::mask, CompletionMode::counter));

/// AM-13, AM-28, AM-31: a burst of ten times the FIFO waits in software, keeps its order and its
/// bytes, and who injects it never waits.
TEST_P(ContextTest, ABurstWaitsInOrder) {
  std::uint64_t injected = 0;
  while (put(injected, injected % 2 == 0) == Injected::yes) {
    ++injected;
  }
  EXPECT_GE(injected, kQueue);
  EXPECT_LE(injected, kQueue + kSlots) << "then it says again, at the limit";
  EXPECT_EQ(context_.queued(), kQueue);
  EXPECT_EQ(context_.pending(), (injected + 1) / 2);
  EXPECT_EQ(put(injected, false), Injected::again) << "and changes nothing";
  EXPECT_EQ(context_.pending(), (injected + 1) / 2);
  std::size_t turns = 0;
  while (context_.pending() > 0 || context_.queued() > 0) {
    adapter(3);
    (void)context_.advance();
    ASSERT_LT(++turns, 10 * injected);
  }
  adapter();
  ASSERT_EQ(taken_.size(), injected);
  for (std::uint64_t i = 0; i < injected; ++i) {
    EXPECT_EQ(taken_[i].remote_addr, i) << "in order";
    EXPECT_EQ(immediates_[i], i) << "its bytes, though the caller's have changed";
  }
  EXPECT_EQ(called_.size(), (injected + 1) / 2);
}

/// AM-28: what comes later does not pass what waits, even if it alone would have room.
TEST_P(ContextTest, NothingPassesWhatWaits) {
  std::uint64_t injected = 0;
  while (context_.queued() == 0) {
    ASSERT_EQ(put(injected++, true), Injected::yes);
  }
  adapter();  // there is room now, but nobody has advanced
  ASSERT_EQ(put(injected++, false), Injected::yes);
  while (context_.advance() > 0) {
    adapter();
  }
  adapter();
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    EXPECT_EQ(taken_[i].remote_addr, i);
  }
  EXPECT_EQ(taken_.size(), injected);
}

/// AM-10: without a queue there is no room or there is, nothing between.
TEST_P(ContextTest, WithoutAQueueAFullFifoSaysAgain) {
  Lane lane(config());
  Context context(lane, 0);
  std::uint32_t injected = 0;
  while (context.put(std::span<const std::byte>{}, {.endpoint = 1}) == Injected::yes) {
    ++injected;
  }
  EXPECT_EQ(injected, kSlots);
  EXPECT_EQ(context.queued(), 0u);
}

/// AM-23, AM-28: a callback that injects more than there is room for is told so, and goes on.
TEST_P(ContextTest, ACallbackIsNeverBlocked) {
  std::uint64_t next = 1;
  std::size_t again = 0;
  std::size_t within = 0;
  in_callback_ = [&](std::uint64_t cookie) {
    within += context_.advance();
    if (cookie > 50) return;
    for (int i = 0; i < 20; ++i) {
      if (put(next, true) == Injected::yes) {
        ++next;
      } else {
        ++again;
      }
    }
  };
  ASSERT_EQ(put(0, true), Injected::yes);
  std::size_t turns = 0;
  while (context_.pending() > 0) {
    adapter();
    (void)context_.advance();
    ASSERT_LT(++turns, 10'000u);
  }
  EXPECT_EQ(within, 0u);
  EXPECT_GT(again, 0u);
  EXPECT_EQ(called_.size(), next);
}

/// AM-22: an error is a callback like others.
TEST_P(ContextTest, ErrorsAreToldOnceEach) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(put(i, true), Injected::yes);
  }
  for (int i = 0; i < 100; ++i) {
    adapter(SIZE_MAX, Status::unreachable);
    (void)context_.advance();
  }
  ASSERT_EQ(called_.size(), 20u);
  for (const Call& call : called_) {
    EXPECT_EQ(call.status, Status::unreachable);
  }
}

/// AM-26: the level is the instruction's.
TEST_P(ContextTest, TheLevelGoesWithTheDescriptor) {
  for (const Level level : {Level::local, Level::remote, Level::handled}) {
    ASSERT_EQ(context_.send(1, 7, {}, std::span<const std::byte>{}, with_callback(0, level)),
              Injected::yes);
  }
  adapter();
  ASSERT_EQ(taken_.size(), 3u);
  EXPECT_EQ(taken_[0].level, Level::local);
  EXPECT_EQ(taken_[1].level, Level::remote);
  EXPECT_EQ(taken_[2].level, Level::handled);
  EXPECT_EQ(taken_[2].handler, 7);
}

/// AM-31: the limit of what is copied. Beyond it the memory is named.
TEST_P(ContextTest, SmallBytesAreCopiedLargeOnesNamed) {
  std::array<std::byte, 256> bytes{};
  const auto addr = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (const std::uint32_t length : {0u, 127u, 128u, 129u, 256u}) {
    ASSERT_EQ(context_.put({.addr = addr, .length = length}, {.endpoint = 1}), Injected::yes);
    adapter();
    EXPECT_EQ((taken_.back().flags & Descriptor::kImmediate) != 0, length <= 128) << length;
    EXPECT_EQ(taken_.back().length, length);
    EXPECT_EQ(taken_.back().local_addr, addr);
  }
}

/// AM-14, AM-31: each kind of instruction says what it is to do.
TEST_P(ContextTest, EveryKindOfInstruction) {
  ASSERT_EQ(context_.get({.addr = 1, .length = 2, .lkey = roce::MemoryKey{3}},
                         {.endpoint = 4, .addr = 5, .rkey = roce::MemoryKey{6}}),
            Injected::yes);
  ASSERT_EQ(context_.fetch_add({.addr = 1, .length = 8, .lkey = roce::MemoryKey{3}},
                               {.endpoint = 4, .addr = 5, .rkey = roce::MemoryKey{6}}, 77),
            Injected::yes);
  ASSERT_EQ(context_.put_notify({.addr = 1, .length = 4000, .lkey = roce::MemoryKey{3}},
                                {.endpoint = 4, .addr = 5, .rkey = roce::MemoryKey{6}}, 8, 99),
            Injected::yes);
  adapter();
  ASSERT_EQ(taken_.size(), 3u);
  EXPECT_EQ(taken_[0].operation, Operation::get);
  EXPECT_EQ(taken_[1].operation, Operation::fetch_add);
  EXPECT_EQ(taken_[1].value, 77u);
  EXPECT_EQ(taken_[2].operation, Operation::put_notify);
  EXPECT_EQ(taken_[2].notify_addr, 8u);
  EXPECT_EQ(taken_[2].value, 99u);
  for (const Descriptor& descriptor : taken_) {
    EXPECT_EQ(descriptor.endpoint, 4);
    EXPECT_EQ(descriptor.local_addr, 1u);
    EXPECT_EQ(descriptor.remote_addr, 5u);
    EXPECT_EQ(descriptor.lkey, roce::MemoryKey{3});
    EXPECT_EQ(descriptor.rkey, roce::MemoryKey{6});
  }
}

Arrival arrival(const Batch& batch) {
  return {.source = 2,
          .buffer = 6,
          .length = static_cast<std::uint32_t>(batch.bytes().size()),
          .bytes = batch.bytes().data()};
}

MessageHeader to_handler(std::uint16_t handler, std::uint16_t header = 0,
                         std::uint32_t length = 0) {
  return {.source = 2, .handler = handler, .header_length = header, .length = length};
}

/// AM-26, AM-27: handlers run in advance(), with what came; the adapter hears of it after that.
TEST_P(ContextTest, HandlersRunInAdvanceAndThenTheAdapterIsTold) {
  const std::array<std::byte, 5> bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                       std::byte{5}};
  unsigned ran = 0;
  Handled handled;
  context_.set_handler(9, [&](const Message& message) {
    ++ran;
    EXPECT_FALSE(lane_.handled.pop(handled)) << "not before it has returned";
    EXPECT_EQ(message.source, 2);
    EXPECT_EQ(message.handler, 9);
    EXPECT_TRUE(
        std::equal(message.header.begin(), message.header.end(), bytes.begin(), bytes.begin() + 2));
    EXPECT_TRUE(
        std::equal(message.payload.begin(), message.payload.end(), bytes.begin() + 2, bytes.end()));
    EXPECT_EQ(context_.advance(), 0u) << "from within a handler nothing happens";
    EXPECT_EQ(put(1, true), Injected::yes) << "but it may inject";
  });
  Batch batch;
  batch.add(to_handler(9, 2, 3), bytes);
  ASSERT_TRUE(lane_.arrivals.push(arrival(batch)));
  EXPECT_EQ(ran, 0u);
  EXPECT_EQ(context_.advance(), 1u);
  EXPECT_EQ(ran, 1u);
  ASSERT_TRUE(lane_.handled.pop(handled));
  EXPECT_EQ(handled.unknown, 0u);
  EXPECT_EQ(handled.buffer, 6u);
  EXPECT_FALSE(handled.rendezvous);
}

/// AM-26, AM-27: the same for one whose payload has been read.
TEST_P(ContextTest, ARendezvousIsHandledAndReturned) {
  const std::array<std::byte, 2> header{std::byte{1}, std::byte{2}};
  const std::array<std::byte, 3> payload{std::byte{3}, std::byte{4}, std::byte{5}};
  unsigned ran = 0;
  context_.set_handler(9, [&](const Message& message) {
    ++ran;
    EXPECT_EQ(message.source, 2);
    EXPECT_TRUE(std::ranges::equal(message.header, header));
    EXPECT_TRUE(std::ranges::equal(message.payload, payload));
  });
  for (const std::uint16_t handler : std::array<std::uint16_t, 2>{9, 10}) {
    ASSERT_TRUE(lane_.arrivals.push({.kind = Arrival::Kind::rendezvous,
                                     .source = 2,
                                     .handler = handler,
                                     .header_length = header.size(),
                                     .buffer = 6,
                                     .length = payload.size(),
                                     .bytes = payload.data(),
                                     .header = header.data()}));
    EXPECT_EQ(context_.advance(), 1u);
    Handled handled;
    ASSERT_TRUE(lane_.handled.pop(handled));
    EXPECT_TRUE(handled.rendezvous);
    EXPECT_EQ(handled.buffer, 6u);
    EXPECT_EQ(handled.unknown, handler == 9 ? 0u : 1u);
  }
  EXPECT_EQ(ran, 1u);
}

/// AM-27: messages that came together are handled in order, and each has its own status.
TEST_P(ContextTest, MessagesOfASendAreHandledInOrder) {
  std::vector<std::uint16_t> ran;
  for (const std::uint16_t id : std::array<std::uint16_t, 2>{1, 2}) {
    context_.set_handler(id, [&](const Message& message) { ran.push_back(message.handler); });
  }
  Batch batch;
  for (const std::uint16_t handler : std::array<std::uint16_t, 5>{2, 3, 1, 2, 4}) {
    batch.add(to_handler(handler), {});
  }
  ASSERT_TRUE(lane_.arrivals.push(arrival(batch)));
  EXPECT_EQ(context_.advance(), 5u);
  EXPECT_EQ(ran, (std::vector<std::uint16_t>{2, 1, 2}));
  Handled handled;
  ASSERT_TRUE(lane_.handled.pop(handled));
  EXPECT_EQ(handled.unknown, 0b10010u);
  EXPECT_FALSE(lane_.handled.pop(handled)) << "the buffer goes back once";
}

/// AM-27: no such handler, or not any more; those of the library are others than applications'.
TEST_P(ContextTest, AnUnknownHandlerIsAnError) {
  unsigned ran = 0;
  context_.set_handler(3, [&](const Message&) { ++ran; });
  context_.set_handler(4, [&](const Message&) { ++ran; });
  context_.set_handler(4, {});
  context_.set_handler(Context::kHandlers + 3, {});
  for (const unsigned id : {0u, 2u, 4u, 5u, 0xfeffu, 0xff00u, 0xff03u, 0xffffu}) {
    Batch batch;
    batch.add(to_handler(static_cast<std::uint16_t>(id)), {});
    ASSERT_TRUE(lane_.arrivals.push(arrival(batch)));
    EXPECT_EQ(context_.advance(), 1u);
    Handled handled;
    ASSERT_TRUE(lane_.handled.pop(handled));
    EXPECT_EQ(handled.unknown, 1u) << id;
  }
  EXPECT_EQ(ran, 0u);
}

}  // namespace
}  // namespace rockhopper::ami
