// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Applications' threads beside their adapters' thread: what a callback tells of is there for the
// thread that is called, by another path (AM-5, AM-6, AM-8, AM-11, AM-22, AM-29, AM-30).
//
// ROCKHOPPER_AMI_INSTRUCTIONS is the number of instructions of each of the two threads.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::ami {
namespace {

using sim::must;

constexpr std::size_t kPlaces = 4096;

std::uint64_t instructions() { return sim::number_or("ROCKHOPPER_AMI_INSTRUCTIONS", 200'000); }

/// One thread's end: it puts numbers into the other's memory and looks at them there.
struct End {
  unsigned index = 0;
  Lane* lane = nullptr;
  std::vector<std::uint64_t> exposed = std::vector<std::uint64_t>(kPlaces);
  roce::MemoryKey key{};
  End* peer = nullptr;
  std::vector<std::uint64_t> outstanding = std::vector<std::uint64_t>(kPlaces);  ///< 0: none
  std::uint64_t injected = 0;
  std::uint64_t expected_calls = 0;
  std::uint64_t calls = 0;
  std::uint64_t wrong = 0;  ///< callbacks before their data, twice, or with an error
  std::uint64_t handled = 0;

  static void on_put(void* context, std::uint64_t number, Status status) {
    End& self = *static_cast<End*>(context);
    const std::size_t place = number % kPlaces;
    ++self.calls;
    // The peer's thread never touches its words: without the bit's release this would be a race.
    if (status != Status::ok || self.outstanding[place] != number ||
        self.peer->exposed[place] != number) {
      ++self.wrong;
    }
    self.outstanding[place] = 0;
  }

  void run(std::uint64_t count, std::uint64_t seed) {
    sim::Rng rng(seed);
    const unsigned callbacks_percent = rng.between32(0, 100);
    Context context(*lane);
    context.set_handler(1, [this](const Message&) { ++handled; });
    std::uint64_t number = 1;
    // Of what has no callback nobody tells; it must have left the context all the same.
    while (injected < count || context.queued() > 0 || context.pending() > 0 ||
           handled < peer_messages(count)) {
      for (unsigned burst = 0; burst < 16 && injected < count; ++burst) {
        if (injected % 16 == 15) {  // every sixteenth is a message
          if (context.send(static_cast<EndpointId>(1 - index), 1, {}) == Injected::again) break;
          ++injected;
          continue;
        }
        const std::size_t place = number % kPlaces;
        if (outstanding[place] != 0) break;
        const bool callback = rng.chance(callbacks_percent);
        const std::uint64_t word = number;
        // Whose end nobody tells of goes to a place that nobody looks at.
        const std::uint64_t& to = peer->exposed[callback ? place : 0];
        const Injected done = context.put(
            std::as_bytes(std::span(&word, 1)),
            {.endpoint = static_cast<EndpointId>(1 - index),
             .addr = reinterpret_cast<std::uintptr_t>(&to),
             .rkey = peer->key},
            {.callback = {
                 .function = callback ? &on_put : nullptr, .context = this, .cookie = number}});
        if (done == Injected::again) break;
        if (callback) {
          outstanding[place] = number;
          ++expected_calls;
        }
        if (++number % kPlaces == 0) ++number;
        ++injected;
      }
      if (context.advance() == 0) std::this_thread::yield();
    }
  }
  static std::uint64_t peer_messages(std::uint64_t count) { return count / 16; }
};

class Threads : public testing::TestWithParam<CompletionMode> {};

TEST_P(Threads, EachCallbackOnceAndAfterItsData) {
  const std::uint64_t seed = sim::number_or("ROCKHOPPER_SEED", std::random_device{}());
  std::printf("ROCKHOPPER_SEED=%llu\n", static_cast<unsigned long long>(seed));
  sim::SimNetwork network({.seed = seed, .pools = &sim::pools()});
  std::array<std::unique_ptr<Adapter>, 2> adapters;
  std::array<End, 2> ends;
  std::array<roce::QueuePair*, 2> qps{};
  for (unsigned i = 0; i < 2; ++i) {
    adapters[i] = must(Adapter::create(network.node(i).engine(), nullptr, {}));
    LaneConfig config;
    config.self = static_cast<EndpointId>(i);
    config.fifo.completion = GetParam();
    config.fifo.slots = 256;
    ends[i].index = i;
    ends[i].lane = must(adapters[i]->add_lane(config));
    ends[i].peer = &ends[1 - i];
    ends[i].key = must(network.node(i).engine().register_memory(
                           adapters[i]->pd(), ends[i].exposed.data(),
                           ends[i].exposed.size() * sizeof(std::uint64_t), roce::kAccessAll))
                      .key;
    qps[i] = must(network.node(i).engine().create_qp(adapters[i]->qp_init(*ends[i].lane)));
  }
  roce::QpAttributes attributes;
  attributes.path_mtu = roce::PathMtu::mtu_1024;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 1;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  network.connect(qps, attributes);
  for (unsigned i = 0; i < 2; ++i) {
    must(adapters[i]->add_peer(*ends[i].lane, static_cast<EndpointId>(1 - i), *qps[i]));
    must(adapters[i]->open(*ends[i].lane));
  }
  std::atomic<bool> stop{false};
  std::thread adapter([&] {
    const auto idle = [](const auto& one) { return one->idle(); };
    while (!stop.load(std::memory_order_relaxed) ||
           !std::all_of(adapters.begin(), adapters.end(), idle)) {
      bool moved = network.poll();
      for (const auto& one : adapters) {
        moved = one->progress(network.now_ns()) || moved;
      }
      if (!moved) {
        const std::uint64_t limit_ns = network.now_ns() + 10'000;
        if (!network.advance(limit_ns)) network.advance_to(limit_ns);
        std::this_thread::yield();
      }
    }
  });
  std::array<std::thread, 2> applications;
  for (unsigned i = 0; i < 2; ++i) {
    applications[i] = std::thread([&, i] { ends[i].run(instructions(), seed + i); });
  }
  for (std::thread& application : applications) {
    application.join();
  }
  stop.store(true, std::memory_order_relaxed);
  adapter.join();
  for (const End& end : ends) {
    EXPECT_EQ(end.wrong, 0u);
    EXPECT_EQ(end.calls, end.expected_calls);
    EXPECT_EQ(end.handled, End::peer_messages(instructions()));
    EXPECT_EQ(end.lane->fifo.pending(), 0u);
  }
  // Callbacks are what completion descriptors are for, and nothing else is.
  for (unsigned i = 0; i < 2; ++i) {
    EXPECT_EQ(adapters[i]->counters().completion_descriptors.value(),
              GetParam() == CompletionMode::mask ? ends[i].calls : 0);
    EXPECT_TRUE(adapters[i]->idle());
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Threads,
                         testing::Values(CompletionMode::mask, CompletionMode::counter));

}  // namespace
}  // namespace rockhopper::ami
