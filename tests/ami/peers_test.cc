// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Several peers of one FIFO: one that is slow holds up nobody's callbacks with the mask, and all of
// those behind it with the counter (AM-12, AM-21, AM-32); one that is killed ends each of its
// callbacks once, with an error (AM-22).
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/collectives.h"
#include "tests/ami/star.h"
#include "tests/ami/transport_case.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

using ami::CompletionMode;
using ami::Injected;
using ami::Level;
using ami::Status;

class Peers : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Peers,
                         ::testing::Values(Case{false, CompletionMode::mask},
                                           Case{false, CompletionMode::counter},
                                           Case{true, CompletionMode::mask},
                                           Case{true, CompletionMode::counter}),
                         name_of);

/// When each callback was called, and with what.
struct Calls {
  Star* star = nullptr;
  std::vector<std::uint64_t> times_ns;
  std::vector<unsigned> count;
  std::vector<Status> statuses;
  std::uint64_t all = 0;

  void resize(std::size_t size) {
    times_ns.resize(size);
    count.resize(size);
    statuses.resize(size);
  }
  ami::Completion completion(std::uint64_t cookie, Level level = Level::remote) {
    return {.level = level,
            .callback = {.function =
                             [](void* context, std::uint64_t which, Status status) {
                               Calls& self = *static_cast<Calls*>(context);
                               self.times_ns.at(which) = self.star->now_ns();
                               self.statuses.at(which) = status;
                               ++self.count.at(which);
                               ++self.all;
                             },
                         .context = this,
                         .cookie = cookie}};
  }
};

/// AM-12, AM-21, AM-32.
TEST_P(Peers, ASlowOneHoldsUpNobodyWithTheMaskAndAllWithTheCounter) {
  constexpr std::uint64_t kDelayNs = 100'000'000;
  constexpr std::size_t kEach = 50;
  Star star({.nodes = 3,
             .dynamic_connections = GetParam().dynamic_connections,
             .timeout = 18,  // a second: nothing is sent again
             .delay_of_1_ns = kDelayNs / 2});
  ami::LaneConfig config;
  config.fifo.completion = GetParam().mode;
  StarLane& sender = star.add_lane(0, config);
  const std::array<StarLane*, 2> peers{&star.add_lane(1), &star.add_lane(2)};
  std::array<std::vector<std::uint64_t>, 2> memory;
  std::array<roce::MemoryKey, 2> keys{};
  for (unsigned i = 0; i < 2; ++i) {
    star.connect(sender, *peers[i]);
    memory[i].resize(kEach);
    keys[i] = star.expose(i + 1, memory[i]);
  }
  Calls calls{.star = &star};
  calls.resize(2 * kEach + 2);
  star.open();
  const auto put = [&](unsigned peer, std::size_t place, std::uint64_t cookie) {
    return sender.context->put(std::as_bytes(std::span(&cookie, 1)),
                               {.endpoint = peers[peer]->id,
                                .addr = reinterpret_cast<std::uintptr_t>(&memory[peer][place]),
                                .rkey = keys[peer]},
                               calls.completion(cookie));
  };
  // Both have been spoken with: what follows is no matter of first connections.
  for (unsigned peer : {0u, 1u}) {
    ASSERT_EQ(put(peer, 0, 2 * kEach + peer), Injected::yes);
  }
  star.wake();
  ASSERT_TRUE(star.run_until([&] { return calls.all == 2; }, 10 * kDelayNs));

  const std::uint64_t began_ns = star.now_ns();
  for (unsigned peer : {0u, 1u}) {  // the slow one's first
    for (std::size_t i = 0; i < kEach; ++i) {
      ASSERT_EQ(put(peer, i, peer * kEach + i), Injected::yes);
    }
  }
  star.wake();
  ASSERT_TRUE(star.run_until([&] { return calls.all == 2 * kEach + 2; }, 10 * kDelayNs));
  std::array<std::pair<std::uint64_t, std::uint64_t>, 2> span_ns;
  for (unsigned peer : {0u, 1u}) {
    const auto [first, last] = std::minmax_element(
        calls.times_ns.begin() + static_cast<std::ptrdiff_t>(peer * kEach),
        calls.times_ns.begin() + static_cast<std::ptrdiff_t>((peer + 1) * kEach));
    span_ns[peer] = {*first - began_ns, *last - began_ns};
    for (std::size_t i = 0; i < kEach; ++i) {
      EXPECT_EQ(memory[peer][i], peer * kEach + i);
    }
  }
  std::printf(
      "%s, %s: callbacks of the slow peer after %.3f to %.3f ms, of the other, injected "
      "behind them, after %.3f to %.3f ms\n",
      GetParam().dynamic_connections ? "dynamic connections" : "queue pairs",
      GetParam().mode == CompletionMode::mask ? "mask" : "counter",
      static_cast<double>(span_ns[0].first) * 1e-6, static_cast<double>(span_ns[0].second) * 1e-6,
      static_cast<double>(span_ns[1].first) * 1e-6, static_cast<double>(span_ns[1].second) * 1e-6);
  for (const unsigned count : calls.count) {
    EXPECT_EQ(count, 1u);
  }
  for (const Status status : calls.statuses) {
    EXPECT_EQ(status, Status::ok);
  }
  EXPECT_GE(span_ns[0].first, kDelayNs);
  if (GetParam().mode == CompletionMode::mask) {
    EXPECT_LT(span_ns[1].second, 1'000'000u);
  } else {
    EXPECT_GE(span_ns[1].first, kDelayNs);
    EXPECT_TRUE(std::is_sorted(calls.times_ns.begin(), calls.times_ns.end() - 2));
  }
}

/// AM-22: 10^4 instructions of all kinds and levels are outstanding when the peer's process ends;
/// some of them have been executed, and nobody knows which.
TEST_P(Peers, AKilledOneEndsEachCallbackOnceWithAnError) {
  constexpr std::uint32_t kOutstanding = 10'000;
  // The first may be complete by then: a connection's opening brings the first request along.
  constexpr std::uint32_t kInjected = kOutstanding + 100;
  constexpr std::uint64_t kDelayNs = 1'000'000;
  Star star({.nodes = 3,
             .dynamic_connections = GetParam().dynamic_connections,
             .timeout = 12,  // 17 ms
             .delay_ns = kDelayNs,
             .adapter = {.transfers = 65'536}});
  ami::LaneConfig config;
  config.fifo.completion = GetParam().mode;
  config.fifo.slots = 32'768;
  StarLane& sender = star.add_lane(0, config);
  StarLane& mortal = star.add_lane(1);
  StarLane& survivor = star.add_lane(2);
  star.connect(sender, mortal);
  star.connect(sender, survivor);
  std::uint64_t handled = 0;
  for (StarLane* peer : {&mortal, &survivor}) {
    peer->context->set_handler(1, [&handled](const ami::Message&) { ++handled; });
  }
  std::vector<std::uint64_t> theirs(64);
  std::vector<std::uint64_t> ours(1024);  // longer than eager_bytes
  const roce::MemoryKey rkey = star.expose(1, theirs);
  const roce::MemoryKey lkey = star.expose(0, ours);
  const auto our_addr = reinterpret_cast<std::uintptr_t>(ours.data());
  const auto their_addr = reinterpret_cast<std::uintptr_t>(theirs.data());
  const ami::Local eight{our_addr, 8, lkey};
  const ami::Remote to{mortal.id, their_addr, rkey};
  Calls calls{.star = &star};
  calls.resize(kInjected + 2);
  star.open();
  ami::Context& context = *sender.context;
  for (StarLane* peer : {&mortal, &survivor}) {
    ASSERT_EQ(context.send(peer->id, 1, {}, std::span<const std::byte>{},
                           calls.completion(kInjected + (peer == &mortal ? 0 : 1), Level::handled)),
              Injected::yes);
  }
  star.wake();
  ASSERT_TRUE(star.run_until([&] { return calls.all == 2; }, 100 * kDelayNs));

  // It ends while it has requests in its hands that it has not answered.
  const std::uint64_t handled_before = handled;
  bool killed = false;
  std::uint64_t outstanding = 0;
  std::vector<unsigned> ended_before;
  star.on_turn = [&](unsigned node) {
    if (node != 1 || killed || handled == handled_before) return;
    killed = true;
    star.kill(1);
    outstanding = sender.context->pending();
    ended_before = calls.count;
  };
  for (std::uint32_t i = 0; i < kInjected; ++i) {
    const ami::Completion completion =
        calls.completion(i, std::array{Level::remote, Level::handled, Level::local}[i % 3]);
    Injected injected = Injected::again;
    switch (i % 7) {
      case 0:
        // Not copied: an immediate one would be complete at level local.
        injected = context.put({our_addr, 512, lkey}, {mortal.id, their_addr, rkey}, completion);
        break;
      case 1:
        injected =
            context.put_notify({our_addr, 8, lkey}, to, their_addr + 8, i, calls.completion(i));
        break;
      case 2:
        injected = context.get(eight, to, completion);
        break;
      case 3:
        injected = context.fetch_add(eight, to, 1, completion);
        break;
      case 4:
        injected = context.send(mortal.id, 1, {}, ami::Local{our_addr, 8192, lkey}, completion);
        break;
      default:
        injected = context.send(mortal.id, 1, {}, ami::Local{our_addr, 8, lkey},
                                calls.completion(i, Level::handled));
    }
    ASSERT_EQ(injected, Injected::yes) << i;
  }
  EXPECT_EQ(context.pending(), kInjected);
  star.wake();
  ASSERT_TRUE(star.run_until([&] { return killed; }, 100 * kDelayNs));
  const std::uint64_t began_ns = star.now_ns();
  EXPECT_TRUE(star.run_until([&] { return calls.all == kInjected + 2; }, 60'000'000'000));
  const std::uint64_t last_ns = *std::max_element(calls.times_ns.begin(), calls.times_ns.end());
  EXPECT_FALSE(star.run_until([] { return false; }, 5'000'000'000)) << "and none comes later";
  std::map<Status, std::uint64_t> statuses;
  for (std::uint32_t i = 0; i < kInjected; ++i) {
    EXPECT_EQ(calls.count[i], 1u) << i;
    if (ended_before[i] == 0) ++statuses[calls.statuses[i]];
  }
  EXPECT_GE(outstanding, kOutstanding);
  std::printf("%" PRIu64 " outstanding, the last callback after %.3f s:", outstanding,
              static_cast<double>(last_ns - began_ns) * 1e-9);
  for (const auto& [status, count] : statuses) {
    std::printf(" %" PRIu64 " %s", count, std::string(to_string(status)).c_str());
  }
  std::printf("\n");
  EXPECT_EQ(statuses.count(Status::ok), 0u);
  EXPECT_EQ(context.pending(), 0u);
  EXPECT_TRUE(star.adapter(0).idle());
  // Within the retry time: 8 times 4 * 17 ms at most (IBTA vol. 1, 9.7.6.1.3), doubled by some.
  EXPECT_LT(last_ns - began_ns, 5'000'000'000u);

  // What is injected later ends, too; the other peer is as before.
  ASSERT_EQ(context.put(eight, to, calls.completion(0)), Injected::yes);
  ASSERT_EQ(context.send(survivor.id, 1, {}, std::span<const std::byte>{},
                         calls.completion(1, Level::handled)),
            Injected::yes);
  star.wake();
  EXPECT_TRUE(star.run_until([&] { return calls.all == kInjected + 4; }, 1'000'000'000));
  EXPECT_EQ(calls.statuses[0], Status::unreachable);
  EXPECT_EQ(calls.statuses[1], Status::ok);
}

/// AM-27, AM-30: who floods a peer with puts reads that peer's long messages all the same, and
/// those of others at once, though the way to the first is full.
TEST_P(Peers, PayloadsAreReadBesideAFlood) {
  constexpr std::uint64_t kDelayNs = 20'000'000;
  constexpr std::uint32_t kMessages = 20;
  Star star({.nodes = 3,
             .dynamic_connections = GetParam().dynamic_connections,
             .timeout = 18,
             .delay_of_1_ns = kDelayNs / 2});
  ami::LaneConfig config;
  config.fifo.completion = GetParam().mode;
  StarLane& busy = star.add_lane(0, config);
  const std::array<StarLane*, 2> peers{&star.add_lane(1), &star.add_lane(2)};
  std::array<std::uint32_t, 2> handled{};
  std::vector<std::byte> payload(8192);
  std::vector<std::uint64_t> theirs(1);
  std::array<roce::MemoryKey, 2> keys{};
  for (unsigned i = 0; i < 2; ++i) {
    star.connect(busy, *peers[i]);
    keys[i] = star.expose(i + 1, payload);
  }
  const roce::MemoryKey rkey = star.expose(1, theirs);
  busy.context->set_handler(
      1, [&](const ami::Message& message) { ++handled.at(message.source - peers[0]->id); });
  std::uint64_t puts = 0;
  bool floods = true;
  const std::uint64_t word = 1;
  star.on_turn = [&](unsigned node) {
    while (node == 0 && floods &&
           busy.context->put(
               std::as_bytes(std::span(&word, 1)),
               {peers[0]->id, reinterpret_cast<std::uintptr_t>(theirs.data()), rkey},
               {.callback = {.function = [](void* to, std::uint64_t,
                                            Status) { ++*static_cast<std::uint64_t*>(to); },
                             .context = &puts}}) == Injected::yes) {
    }
  };
  const auto send = [&](unsigned i) {
    return peers[i]->context->send(
        busy.id, 1, {},
        ami::Local{reinterpret_cast<std::uintptr_t>(payload.data()), 8192, keys[i]});
  };
  star.open();
  ASSERT_TRUE(star.run_until([&] { return puts > 0; }, 10 * kDelayNs)) << "the flood has begun";
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(send(0), Injected::yes);
  }
  star.wake();
  EXPECT_FALSE(star.run_until([] { return false; }, kDelayNs)) << "they have been announced";
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(send(1), Injected::yes);
  }
  star.wake();
  EXPECT_TRUE(star.run_until([&] { return handled[1] == kMessages; }, kDelayNs / 4))
      << "the near one's: " << handled[1];
  // Each time 8 can be on their way: 3 times there and back, and some for the flood before them.
  EXPECT_TRUE(star.run_until([&] { return handled[0] == kMessages; }, 20 * kDelayNs))
      << "the busy one's: " << handled[0];
  floods = false;
  EXPECT_TRUE(star.run_until([&] { return busy.context->pending() == 0; }, 100 * kDelayNs));
}

/// AM-22: a rank that only waits for a message, and so has nothing at the transport.
TEST_P(Peers, AGoneRootIsNoticedByWhoOnlyWaits) {
  Star star({.nodes = 2, .dynamic_connections = GetParam().dynamic_connections});
  ami::LaneConfig config;
  config.fifo.completion = GetParam().mode;
  StarLane& root = star.add_lane(0, config);
  StarLane& leaf = star.add_lane(1, config);
  star.connect(root, leaf);
  const auto world =
      must(ami::Communicator::create(*leaf.context, {.members = {root.id, leaf.id}, .rank = 1}));
  std::vector<std::uint64_t> ours(1);
  const roce::MemoryKey lkey = star.expose(1, ours);
  star.open();
  star.kill(0);
  ami::Request request;
  ASSERT_EQ(world->broadcast({reinterpret_cast<std::uintptr_t>(ours.data()), 8, lkey}, 0, request),
            Injected::yes);
  star.wake();
  EXPECT_TRUE(star.run_until([&] { return request.done() && world->idle(); }, 10'000'000'000));
  EXPECT_EQ(request.status(), Status::unreachable);
  star.adapter(1).close(*leaf.lane);
  star.wake();
  EXPECT_TRUE(star.run_until([&] { return world->idle(); }, 10'000'000'000));
}

/// AM-22: a root whose broadcasts have all arrived, at a rank that then is gone, and owes it
/// nothing but to keep up.
TEST_P(Peers, AGoneRankIsNoticedByARootThatMayNotRunAhead) {
  Star star({.nodes = 2, .dynamic_connections = GetParam().dynamic_connections});
  ami::LaneConfig config;
  config.fifo.completion = GetParam().mode;
  StarLane& root = star.add_lane(0, config);
  StarLane& leaf = star.add_lane(1, config);
  star.connect(root, leaf);
  leaf.stopped = true;  // starts nothing, but acknowledges
  const auto world = must(ami::Communicator::create(
      *root.context, {.members = {root.id, leaf.id}, .rank = 0, .window = 2}));
  std::vector<std::uint64_t> ours(1);
  const roce::MemoryKey lkey = star.expose(0, ours);
  const ami::Local vector{reinterpret_cast<std::uintptr_t>(ours.data()), 8, lkey};
  star.open();
  ami::Request request;
  unsigned ahead = 0;
  while (world->broadcast(vector, 0, request) == Injected::yes) {
    star.wake();
    ASSERT_TRUE(star.run_until([&] { return request.done(); }, 1'000'000'000));
    ASSERT_EQ(request.status(), Status::ok);
    ASSERT_LT(++ahead, 100u) << "it may run ahead without end";
  }
  EXPECT_GT(ahead, 0u);
  EXPECT_FALSE(star.run_until([] { return false; }, 100'000'000)) << "all is acknowledged";
  EXPECT_EQ(world->broadcast(vector, 0, request), Injected::again);
  star.kill(1);
  star.wake();
  EXPECT_TRUE(star.run_until([&] { return world->status() != Status::ok; }, 10'000'000'000));
  EXPECT_EQ(world->broadcast(vector, 0, request), Injected::yes);
  star.wake();
  EXPECT_TRUE(star.run_until([&] { return request.done() && world->idle(); }, 10'000'000'000));
  EXPECT_EQ(request.status(), Status::unreachable);
}

/// AM-22: on close, too; what is at the transport then ends by itself.
TEST_P(Peers, CloseEndsEachCallbackOnce) {
  constexpr std::uint32_t kOutstanding = 2'000;
  Star star({.nodes = 2,
             .dynamic_connections = GetParam().dynamic_connections,
             .timeout = 14,
             .delay_ns = 1'000'000,
             .adapter = {.transfers = 256}});
  ami::LaneConfig config;
  config.fifo.completion = GetParam().mode;
  config.fifo.slots = 1024;
  StarLane& sender = star.add_lane(0, config, kOutstanding);
  StarLane& peer = star.add_lane(1);
  star.connect(sender, peer);
  peer.stopped = true;  // answers nothing, but acknowledges
  std::vector<std::uint64_t> theirs(1);
  const roce::MemoryKey rkey = star.expose(1, theirs);
  Calls calls{.star = &star};
  calls.resize(kOutstanding);
  star.open();
  const std::uint64_t word = 0;
  for (std::uint32_t i = 0; i < kOutstanding; ++i) {
    const Injected injected =
        i % 2 == 0
            ? sender.context->put(std::as_bytes(std::span(&word, 1)),
                                  {peer.id, reinterpret_cast<std::uintptr_t>(theirs.data()), rkey},
                                  calls.completion(i))
            : sender.context->send(peer.id, 1, {}, std::span<const std::byte>{},
                                   calls.completion(i, Level::handled));
    ASSERT_EQ(injected, Injected::yes);
  }
  star.wake();
  EXPECT_FALSE(star.run_until([] { return false; }, 3'000'000));
  EXPECT_GT(sender.context->queued(), 0u) << "some are in the FIFO, some have not come so far";
  star.adapter(0).close(*sender.lane);
  star.wake();
  EXPECT_TRUE(star.run_until([&] { return calls.all == kOutstanding; }, 10'000'000'000));
  EXPECT_FALSE(star.run_until([] { return false; }, 1'000'000'000));
  std::uint64_t canceled = 0;
  for (std::uint32_t i = 0; i < kOutstanding; ++i) {
    EXPECT_EQ(calls.count[i], 1u) << i;
    EXPECT_TRUE(calls.statuses[i] == Status::canceled ||
                (calls.statuses[i] == Status::ok && i % 2 == 0))
        << i << ": " << to_string(calls.statuses[i]);
    canceled += calls.statuses[i] == Status::canceled ? 1 : 0;
  }
  EXPECT_GE(canceled, kOutstanding / 2);
  EXPECT_TRUE(star.adapter(0).idle());
}

}  // namespace
}  // namespace rockhopper::sim
