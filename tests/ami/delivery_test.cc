// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What arrives: in order and without growing memory under a flood (AM-13, AM-28), the value that
// tells of data behind them (AM-14), handlers before the callback that tells of them (AM-26,
// AM-27), small buffers as they were at injection (AM-31).
//
// ROCKHOPPER_AMI_INSTRUCTIONS is the number of buffers that are overwritten.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/ami/allocations.h"
#include "tests/ami/star.h"
#include "tests/ami/transport_case.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

using ami::CompletionMode;
using ami::Injected;
using ami::Level;
using ami::Status;

/// Profile P2 of docs/requirements.md.
const stack::FaultRates kP2{.loss = 0.01,
                            .corrupt = 0.0001,
                            .duplicate = 0.01,
                            .duplicate_max_ns = 1'000'000,
                            .reorder = 0.05,
                            .reorder_max_ns = 2'000'000};
constexpr std::uint64_t kLimitNs = 3'600'000'000'000;

class Delivery : public ::testing::TestWithParam<Case> {
 protected:
  static ami::LaneConfig config() {
    ami::LaneConfig made;
    made.fifo.completion = GetParam().mode;
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Delivery,
                         ::testing::Values(Case{false, CompletionMode::mask},
                                           Case{false, CompletionMode::counter},
                                           Case{true, CompletionMode::mask},
                                           Case{true, CompletionMode::counter}),
                         name_of);

/// AM-28: who injects whenever there is room, for two destinations on a slow line.
TEST_P(Delivery, AFloodKeepsOrderAndMemory) {
  constexpr std::uint32_t kMessages = 20'000;  ///< to each
  constexpr std::uint32_t kSlots = 64;
  constexpr std::uint32_t kQueue = 10 * kSlots;
  constexpr std::size_t kBytes = 200;
  Star star({.nodes = 3,
             .dynamic_connections = GetParam().dynamic_connections,
             .timeout = 14,
             .rate_bits_per_s = 100'000'000,
             .adapter = {.transfers = 128}});
  ami::LaneConfig small = config();
  small.fifo.slots = kSlots;
  StarLane& sender = star.add_lane(0, small, kQueue);
  std::array<std::uint32_t, 2> next{};
  std::uint64_t out_of_order = 0;
  std::array<StarLane*, 2> peers{};
  for (unsigned i = 0; i < 2; ++i) {
    peers[i] = &star.add_lane(i + 1, config());
    star.connect(sender, *peers[i]);
    peers[i]->context->set_handler(1, [&, i](const ami::Message& message) {
      std::uint32_t number = 0;
      std::memcpy(&number, message.header.data(), sizeof number);
      if (number != next[i]++) ++out_of_order;
    });
  }
  struct Flood {
    ami::Context* context = nullptr;
    std::array<std::uint32_t, 2> sent{};
    std::uint64_t again = 0;
    std::uint64_t called = 0;
    std::uint64_t most_queued = 0;
  } flood{.context = sender.context.get()};
  const std::array<std::byte, kBytes> payload{};
  star.on_turn = [&](unsigned node) {
    // As much as is taken, in turn for one and the other.
    while (node == 0 && flood.sent[1] < kMessages) {
      const unsigned i = flood.sent[0] > flood.sent[1] ? 1 : 0;
      const std::uint32_t number = flood.sent[i];
      const Injected injected = flood.context->send(
          peers[i]->id, 1, std::as_bytes(std::span(&number, 1)), payload,
          {.callback = {.function = number % 3 == 0
                                        ? [](void* to, std::uint64_t,
                                             Status) { ++static_cast<Flood*>(to)->called; }
                                        : static_cast<ami::Callback::Function>(nullptr),
                        .context = &flood}});
      flood.most_queued = std::max<std::uint64_t>(flood.most_queued, flood.context->queued());
      if (injected == Injected::again) {
        ++flood.again;
        break;
      }
      ++flood.sent[i];
    }
  };
  star.open();
  // The first thousand may find queues that have never been so long.
  ASSERT_TRUE(star.run_until([&] { return next[0] >= 1000 && next[1] >= 1000; }, kLimitNs));
  const std::uint64_t allocations = forbidden_allocations();
  ASSERT_TRUE(
      star.run_until([&] { return next[0] == kMessages && next[1] == kMessages; }, kLimitNs));
  EXPECT_TRUE(star.run_until([&] { return flood.context->pending() == 0; }, kLimitNs));
  std::printf("again %" PRIu64 ", at most %" PRIu64 " queued\n", flood.again, flood.most_queued);
  EXPECT_EQ(out_of_order, 0u);
  EXPECT_GT(flood.again, 0u);
  EXPECT_EQ(flood.most_queued, kQueue) << "full, and not beyond";
  EXPECT_EQ(flood.called, 2 * ((kMessages + 2) / 3));
  EXPECT_EQ(forbidden_allocations(), allocations) << "nothing grew";
}

/// AM-14: whenever the application looks, where the value is the data are.
TEST_P(Delivery, AValueNeverComesBeforeItsData) {
  constexpr std::size_t kPlaces = 16;
  constexpr std::size_t kBytes = 6000;
  constexpr std::uint64_t kPuts = 3'000;
  Star star({.dynamic_connections = GetParam().dynamic_connections, .faults = kP2});
  StarLane& sender = star.add_lane(0, config());
  StarLane& peer = star.add_lane(1, config());
  star.connect(sender, peer);
  std::vector<std::byte> ours(kPlaces * kBytes);
  std::vector<std::byte> theirs(kPlaces * kBytes);
  const roce::MemoryKey lkey = star.expose(0, ours);
  const roce::MemoryKey rkey = star.expose(1, theirs);
  struct Place {
    std::uint64_t value = 0;  ///< 0: free
    std::uint32_t length = 0;
    bool seen = false;
  };
  Rng rng(14);
  std::array<Place, kPlaces> places;
  std::uint64_t sent = 0;
  std::uint64_t ended = 0;
  std::uint64_t early = 0;
  std::uint64_t seen_first = 0;
  std::uint64_t unseen = 0;
  struct End {
    std::array<Place, kPlaces>* places;
    std::uint64_t* ended;
    std::uint64_t* unseen;
  } end{&places, &ended, &unseen};
  // Data and value are under one key: the value is behind the data of its place.
  const auto value_of = [&](std::size_t i) {
    std::uint64_t value = 0;
    std::memcpy(&value, &theirs[(i + 1) * kBytes - 8], sizeof value);
    return value;
  };
  star.on_turn = [&](unsigned node) {
    for (std::size_t i = 0; i < kPlaces; ++i) {
      Place& place = places[i];
      if (node == 1 && place.value != 0 && !place.seen && value_of(i) == place.value) {
        place.seen = true;
        ++seen_first;
        if (!std::equal(&theirs[i * kBytes], &theirs[i * kBytes] + place.length,
                        &ours[i * kBytes])) {
          ++early;
        }
      }
      if (node != 0 || place.value != 0 || sent == kPuts) continue;
      const std::uint32_t length = rng.pick<std::uint32_t>({0, 8, 256, 257, 1024, 3000, 5992});
      for (std::size_t b = 0; b < length; ++b) {
        ours[i * kBytes + b] = static_cast<std::byte>(rng.next());
      }
      const std::uint64_t value = rng.next() | 1;
      const auto at = reinterpret_cast<std::uintptr_t>(&theirs[i * kBytes]);
      const Injected injected = sender.context->put_notify(
          {reinterpret_cast<std::uintptr_t>(&ours[i * kBytes]), length, lkey}, {peer.id, at, rkey},
          at + kBytes - 8, value,
          {.callback = {.function =
                            [](void* context, std::uint64_t which, Status status) {
                              End& to = *static_cast<End*>(context);
                              Place& of = (*to.places)[which];
                              ++*to.ended;
                              if (!of.seen || status != Status::ok) ++*to.unseen;
                              of = {};
                            },
                        .context = &end,
                        .cookie = i}});
      if (injected == Injected::again) return;
      place = {.value = value, .length = length};
      ++sent;
    }
  };
  star.open();
  ASSERT_TRUE(star.run_until([&] { return ended == kPuts; }, kLimitNs));
  EXPECT_EQ(early, 0u);
  EXPECT_EQ(unseen, 0u) << "a callback before the value was there";
  EXPECT_EQ(seen_first, kPuts);
}

/// AM-26, AM-27: one clock counts what happens at both ends.
TEST_P(Delivery, HandledIsNeverToldBeforeTheHandlersLog) {
  constexpr std::uint64_t kMessages = 10'000;
  constexpr std::uint16_t kHandler = 1;
  constexpr std::uint16_t kNone = 2;
  Star star({.dynamic_connections = GetParam().dynamic_connections, .faults = kP2});
  StarLane& sender = star.add_lane(0, config());
  StarLane& peer = star.add_lane(1, config());
  star.connect(sender, peer);
  struct Log {
    std::uint64_t clock = 0;
    std::vector<std::uint64_t> handled;
    std::vector<std::uint64_t> told;
    std::vector<Status> statuses;
    std::uint64_t all = 0;
  } log;
  log.handled.resize(kMessages);
  log.told.resize(kMessages);
  log.statuses.resize(kMessages);
  std::uint64_t wrong = 0;
  std::vector<std::byte> ours(8192);
  Rng rng(26);
  for (std::byte& byte : ours) {
    byte = static_cast<std::byte>(rng.next());
  }
  const roce::MemoryKey lkey = star.expose(0, ours);
  peer.context->set_handler(kHandler, [&](const ami::Message& message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.header.data(), sizeof number);
    if (!std::equal(message.payload.begin(), message.payload.end(), ours.begin())) ++wrong;
    if (log.handled.at(number) != 0) ++wrong;
    log.handled.at(number) = ++log.clock;
  });
  struct Sent {
    Level level;
    bool unknown;
    std::uint32_t length;
  };
  std::vector<Sent> sent;
  star.on_turn = [&](unsigned node) {
    if (node == 1) peer.stopped = rng.chance(30);  // slow: sometimes not in this turn
    while (node == 0 && sent.size() < kMessages) {
      const std::uint64_t number = sent.size();
      const Sent next{.level = rng.pick({Level::local, Level::remote, Level::handled}),
                      .unknown = rng.chance(10),
                      .length = rng.pick<std::uint32_t>({0, 8, 248, 249, 4000, 4088, 4089, 8192})};
      if (sender.context->send(peer.id, next.unknown ? kNone : kHandler,
                               std::as_bytes(std::span(&number, 1)),
                               {reinterpret_cast<std::uintptr_t>(ours.data()), next.length, lkey},
                               {.level = next.level,
                                .callback = {.function =
                                                 [](void* to, std::uint64_t which, Status status) {
                                                   Log& at = *static_cast<Log*>(to);
                                                   at.told[which] = ++at.clock;
                                                   at.statuses[which] = status;
                                                   ++at.all;
                                                 },
                                             .context = &log,
                                             .cookie = number}}) == Injected::again) {
        return;
      }
      const AllocationsAllowed allowed;
      sent.push_back(next);
    }
  };
  star.open();
  ASSERT_TRUE(star.run_until(
      [&] {
        // Its stop is for one turn.
        if (peer.stopped) {
          peer.stopped = false;
          star.wake();
        }
        return log.all == kMessages;
      },
      kLimitNs));
  ASSERT_TRUE(star.run_until(
      [&] {
        for (std::size_t i = 0; i < kMessages; ++i) {
          if (!sent[i].unknown && log.handled[i] == 0) return false;
        }
        return true;
      },
      kLimitNs));
  std::uint64_t handled = 0;
  std::uint64_t before_handler = 0;
  std::uint64_t unknown = 0;
  for (std::size_t i = 0; i < kMessages; ++i) {
    const bool is_long = sent[i].length + 8 > 4096;
    const bool waits = sent[i].level == Level::handled || is_long;
    if (sent[i].unknown) {
      EXPECT_EQ(log.handled[i], 0u);
      EXPECT_EQ(log.statuses[i], waits ? Status::unknown_handler : Status::ok) << i;
      unknown += waits ? 1 : 0;
      continue;
    }
    EXPECT_EQ(log.statuses[i], Status::ok);
    if (sent[i].level == Level::handled) {
      EXPECT_LT(log.handled[i], log.told[i]) << i;
      ++handled;
    } else if (log.told[i] < log.handled[i]) {
      ++before_handler;
    }
  }
  std::printf("%" PRIu64 " handled, %" PRIu64
              " of the others told of before their handler ran, %" PRIu64 " without a handler\n",
              handled, before_handler, unknown);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(handled, 0u);
  EXPECT_GT(before_handler, 0u) << "or the levels would be one";
  EXPECT_GT(unknown, 0u);
}

/// AM-26 to AM-28: many small messages, of all levels, with and without callbacks, in few SENDs;
/// in order, each handled once, each callback once.
TEST_P(Delivery, SmallMessagesShareSends) {
  constexpr std::uint64_t kMessages = 20'000;
  Star star({.dynamic_connections = GetParam().dynamic_connections, .faults = kP2});
  StarLane& sender = star.add_lane(0, config());
  StarLane& peer = star.add_lane(1, config());
  star.connect(sender, peer);
  Rng rng(27);
  std::uint64_t next = 0;
  std::uint64_t wrong = 0;
  std::uint64_t called = 0;
  std::uint64_t with_callback = 0;
  peer.context->set_handler(1, [&](const ami::Message& message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.header.data(), sizeof number);
    if (number != next++ || message.payload.size() != number % 40) ++wrong;
  });
  const std::array<std::byte, 40> payload{};
  std::uint64_t sent = 0;
  star.on_turn = [&](unsigned node) {
    while (node == 0 && sent < kMessages) {
      ami::Completion completion{.level = rng.pick({Level::local, Level::remote, Level::handled})};
      const bool told = rng.chance(50);
      if (told) {
        completion.callback = {
            .function = [](void* to, std::uint64_t, Status) { ++*static_cast<std::uint64_t*>(to); },
            .context = &called};
      }
      if (sender.context->send(peer.id, 1, std::as_bytes(std::span(&sent, 1)),
                               std::span(payload).first(sent % 40),
                               completion) == Injected::again) {
        return;
      }
      with_callback += told ? 1 : 0;
      ++sent;
    }
  };
  star.open();
  ASSERT_TRUE(
      star.run_until([&] { return next == kMessages && called == with_callback; }, kLimitNs));
  EXPECT_EQ(wrong, 0u);
  const ami::Counters& counters = star.adapter(0).counters();
  EXPECT_EQ(counters.tx_eager.value(), kMessages);
  const std::uint64_t sends = kMessages - counters.tx_shared.value();
  std::printf("%" PRIu64 " messages in %" PRIu64 " SENDs, %" PRIu64 " with replies\n", kMessages,
              sends, star.adapter(1).counters().tx_replies.value());
  EXPECT_LT(sends, kMessages / 4);
}

/// AM-31: one buffer for all, overwritten as soon as inject has returned.
TEST_P(Delivery, ASmallBufferMayBeOverwrittenAtOnce) {
  const std::uint64_t count = number_or("ROCKHOPPER_AMI_INSTRUCTIONS", 20'000);
  static constexpr std::size_t kPlaces = 256;
  static constexpr std::size_t kBytes = 240;
  Star star({.dynamic_connections = GetParam().dynamic_connections, .faults = kP2});
  StarLane& sender = star.add_lane(0, config());
  StarLane& peer = star.add_lane(1, config());
  star.connect(sender, peer);
  struct State {
    std::vector<std::byte> theirs = std::vector<std::byte>(kPlaces * kBytes);
    std::array<std::uint64_t, kPlaces> outstanding{};  ///< number + 1; 0: free
    std::uint64_t wrong = 0;
    std::uint64_t puts = 0;
    std::uint64_t messages = 0;

    static std::byte at(std::uint64_t number, std::size_t i) {
      return static_cast<std::byte>((number * 0x9e3779b97f4a7c15u) >> (i % 8 * 8)) ^
             static_cast<std::byte>(i);
    }
    static bool holds(std::uint64_t number, std::span<const std::byte> bytes) {
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] != at(number, i)) return false;
      }
      return true;
    }
  } state;
  const roce::MemoryKey rkey = star.expose(1, state.theirs);
  peer.context->set_handler(1, [&](const ami::Message& message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.header.data(), sizeof number);
    if (!State::holds(number, message.payload)) ++state.wrong;
    ++state.messages;
  });
  std::uint64_t injected = 0;
  std::uint64_t sends = 0;
  std::array<std::byte, kBytes> buffer;
  star.on_turn = [&](unsigned node) {
    while (node == 0 && injected < count) {
      const std::uint64_t number = injected;
      const std::size_t place = number % kPlaces;
      const std::size_t length = number % 5 == 0 ? kBytes : number % kBytes;
      for (std::size_t i = 0; i < length; ++i) {
        buffer[i] = State::at(number, i);
      }
      Injected done = Injected::again;
      const bool is_put = number % 2 == 0;
      if (is_put) {
        if (state.outstanding[place] != 0) return;
        done = sender.context->put(
            std::span(buffer).first(length),
            {peer.id, reinterpret_cast<std::uintptr_t>(&state.theirs[place * kBytes]), rkey},
            {.callback = {.function =
                              [](void* to, std::uint64_t cookie, Status status) {
                                State& at = *static_cast<State*>(to);
                                const std::size_t where = cookie % kPlaces;
                                const std::size_t bytes =
                                    cookie % 5 == 0 ? kBytes : cookie % kBytes;
                                if (status != Status::ok || at.outstanding[where] != cookie + 1 ||
                                    !State::holds(cookie, std::span(at.theirs).subspan(
                                                              where * kBytes, bytes))) {
                                  ++at.wrong;
                                }
                                at.outstanding[where] = 0;
                                ++at.puts;
                              },
                          .context = &state,
                          .cookie = number}});
      } else {
        done = sender.context->send(peer.id, 1, std::as_bytes(std::span(&number, 1)),
                                    std::span(buffer).first(length));
      }
      buffer.fill(std::byte{0xdd});
      if (done == Injected::again) return;
      if (is_put) state.outstanding[place] = number + 1;
      sends += is_put ? 0 : 1;
      ++injected;
    }
  };
  star.open();
  ASSERT_TRUE(star.run_until(
      [&] { return injected == count && state.puts + state.messages == count; }, UINT64_MAX / 2));
  EXPECT_EQ(state.wrong, 0u);
  EXPECT_EQ(state.messages, sends);
}

}  // namespace
}  // namespace rockhopper::sim
