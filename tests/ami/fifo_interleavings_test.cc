// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
/// Every interleaving of an application's thread and its adapter on a small FIFO, in the code that
/// ships (AM-10, AM-20, AM-24, AM-29).

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/injection_fifo.h"
#include "tests/ami/interleavings.h"

namespace rockhopper::ami {
namespace {

using interleavings::changes;
using interleavings::check;
using interleavings::Explored;
using interleavings::wait_for_change;

constexpr std::size_t kMost = 8;

/// What one run of the two threads shares, and what is true of it.
struct World {
  World(const FifoConfig& config, std::vector<bool> callbacks)
      : fifo(config), with_callback(std::move(callbacks)) {}

  InjectionFifo<Explored> fifo;
  std::vector<bool> with_callback;                        ///< of each instruction
  std::array<Explored::Cell<std::uint64_t>, kMost> data;  ///< what each transfer brings
  std::array<unsigned, kMost> calls{};
};

Status status_of(std::uint64_t instruction) {
  return instruction % 2 == 0 ? Status::ok : Status::refused;
}

void on_complete(void* context, std::uint64_t cookie, Status status) {
  World& world = *static_cast<World*>(context);
  check(status == status_of(cookie), "another one's status");
  // Read through a path of its own: the clocks see whether the bit came behind the data.
  check(world.data[cookie].read() == cookie + 1, "called before its data were there");
  ++world.calls[cookie];
}

void application(World& world) {
  const std::size_t count = world.with_callback.size();
  std::size_t next = 0;
  const auto wanted = static_cast<std::uint64_t>(
      std::count(world.with_callback.begin(), world.with_callback.end(), true));
  std::uint64_t called = 0;
  while (next < count || called < wanted) {
    const std::uint64_t seen = changes();
    bool moved = false;
    if (next < count) {
      Descriptor transfer;
      transfer.value = next;
      const Callback callback{.function = world.with_callback[next] ? &on_complete : nullptr,
                              .context = &world,
                              .cookie = next};
      if (world.fifo.inject(transfer, {}, callback)) {
        ++next;
        moved = true;
      }
    }
    if (moved) continue;  // as much as there is room for
    const std::size_t now = world.fifo.advance();
    called += now;
    if (now == 0) wait_for_change(seen);
  }
}

/// Takes all descriptors; completes transfers in the order that `newest_first` says, as far as it
/// has them.
void adapter(World& world, bool newest_first) {
  const bool mask = world.fifo.config().completion == CompletionMode::mask;
  struct Taken {
    std::uint64_t place;
    std::uint64_t instruction;
  };
  std::array<Taken, kMost> taken;
  std::size_t held = 0;
  std::size_t transfers = 0;
  std::uint64_t last = 0;
  bool awaits_completion = false;
  std::uint64_t expected_place = 0;
  const auto finish_one = [&] {
    const std::size_t which = newest_first ? held - 1 : 0;
    const Taken one = taken[which];
    std::copy(taken.begin() + static_cast<std::ptrdiff_t>(which) + 1,
              taken.begin() + static_cast<std::ptrdiff_t>(held),
              taken.begin() + static_cast<std::ptrdiff_t>(which));
    --held;
    world.data[one.instruction].write(one.instruction + 1);
    world.fifo.complete(one.place, status_of(one.instruction));
  };
  while (transfers < world.with_callback.size() || awaits_completion || held > 0) {
    const std::uint64_t seen = changes();
    const Descriptor* front = world.fifo.front();
    if (front == nullptr) {
      if (held > 0) {
        finish_one();
      } else {
        wait_for_change(seen);
      }
      continue;
    }
    check(world.fifo.front_place() == expected_place++, "a descriptor was left out");
    if (front->type == Descriptor::Type::completion) {
      check(mask && awaits_completion, "a completion descriptor without a callback");
      check(
          front->value == std::uint64_t{1} << world.fifo.front_place() % world.fifo.config().slots,
          "another slot's bit");
      awaits_completion = false;
      taken[held++] = {.place = world.fifo.front_place(), .instruction = last};
    } else {
      check(!awaits_completion, "no completion descriptor in the next slot");
      check(front->value == transfers, "out of order");
      last = transfers++;
      const bool callback = (front->flags & Descriptor::kCallback) != 0;
      check(callback == world.with_callback[last], "another one's callback");
      awaits_completion = mask && callback;
      if (!mask) taken[held++] = {.place = world.fifo.front_place(), .instruction = last};
    }
    world.fifo.pop();
  }
}

struct Case {
  CompletionMode completion;
  std::uint32_t slots;
  std::vector<bool> callbacks;
  bool newest_first;
};

class Interleavings : public testing::TestWithParam<Case> {};

TEST_P(Interleavings, EachCallbackOnceAndAfterItsData) {
  const Case& test = GetParam();
  const interleavings::Report report = interleavings::explore([&] {
    const auto world = std::make_shared<World>(
        FifoConfig{.completion = test.completion, .slots = test.slots, .immediate_bytes = 0},
        test.callbacks);
    return interleavings::Run{.threads = {[world] { application(*world); },
                                          [world, &test] { adapter(*world, test.newest_first); }},
                              .at_end = [world, &test] {
                                for (std::size_t i = 0; i < test.callbacks.size(); ++i) {
                                  check(world->calls[i] == (test.callbacks[i] ? 1 : 0),
                                        "called once");
                                }
                                check(world->fifo.pending() == 0, "nothing is pending");
                              }};
  });
  EXPECT_EQ(report.error, "") << "run " << report.runs;
  RecordProperty("states", std::to_string(report.states));
  std::printf("%llu states, %llu runs\n", static_cast<unsigned long long>(report.states),
              static_cast<unsigned long long>(report.runs));
}

INSTANTIATE_TEST_SUITE_P(
    Mask, Interleavings,
    testing::Values(Case{CompletionMode::mask, 4, {true, true, true}, false},
                    Case{CompletionMode::mask, 4, {true, true, true}, true},
                    Case{CompletionMode::mask, 4, {true, false, true, false}, true},
                    Case{CompletionMode::mask, 2, {true, true, false}, false},
                    Case{CompletionMode::mask, 2, {false, true, true}, true},
                    Case{CompletionMode::mask, 8, {true, true, true}, true}));
INSTANTIATE_TEST_SUITE_P(
    Counter, Interleavings,
    testing::Values(Case{CompletionMode::counter, 2, {true, true, true}, false},
                    Case{CompletionMode::counter, 4, {true, false, true, true}, true},
                    Case{CompletionMode::counter, 2, {true, false, false, true}, false},
                    Case{CompletionMode::counter, 2, {false, true, false, false}, true},
                    Case{CompletionMode::counter, 2, {false, true, false, true}, true}));

/// Bits of several words, set while they are taken: none is lost, none is taken twice (AM-25).
TEST(MaskInterleavings, NoBitIsLost) {
  struct Shared {
    CompletionMask<Explored> mask{3 * 64};
    std::array<Explored::Cell<int>, 4> data;
    std::array<unsigned, 4> taken{};
  };
  static constexpr std::array<std::uint32_t, 4> kSlots{0, 63, 64, 191};
  const interleavings::Report report = interleavings::explore([] {
    const auto shared = std::make_shared<Shared>();
    const auto set = [shared] {
      for (std::size_t i = 0; i < kSlots.size(); ++i) {
        shared->data[i].write(1);
        shared->mask.set(kSlots[i]);
      }
    };
    const auto take = [shared] {
      unsigned all = 0;
      while (all < kSlots.size()) {
        const std::uint64_t seen = changes();
        const unsigned before = all;
        shared->mask.take([&](std::uint32_t slot) {
          const auto which = static_cast<std::size_t>(
              std::find(kSlots.begin(), kSlots.end(), slot) - kSlots.begin());
          check(which < kSlots.size(), "a bit that nobody set");
          check(shared->data[which].read() == 1, "the bit came before the data");
          ++shared->taken[which];
          ++all;
        });
        if (all == before) wait_for_change(seen);
      }
    };
    return interleavings::Run{.threads = {set, take}, .at_end = [shared] {
                                for (const unsigned count : shared->taken) {
                                  check(count == 1, "each bit once");
                                }
                                check(!shared->mask.any(), "all bits are clear");
                              }};
  });
  EXPECT_EQ(report.error, "");
}

/// The explorer can fail: a flag without release and acquire, and one that is seen too late.
TEST(Explorer, SeesARace) {
  for (const auto order : {std::memory_order_relaxed, std::memory_order_release}) {
    const interleavings::Report report = interleavings::explore([order] {
      struct Shared {
        Explored::Cell<int> data;
        Explored::Atomic<int> flag;
      };
      const auto shared = std::make_shared<Shared>();
      return interleavings::Run{
          .threads = {[shared, order] {
                        shared->data.write(1);
                        shared->flag.store(1, order);
                      },
                      [shared] {
                        if (shared->flag.load(std::memory_order_acquire) == 1) {
                          check(shared->data.read() == 1, "the data");
                        }
                      }},
          .at_end = {}};
    });
    EXPECT_EQ(report.error.empty(), order == std::memory_order_release) << report.error;
  }
}

TEST(Explorer, SeesALostUpdateAndADeadlock) {
  struct Shared {
    Explored::Atomic<int> count;
  };
  const interleavings::Report lost = interleavings::explore([] {
    const auto shared = std::make_shared<Shared>();
    const auto add = [shared] {
      shared->count.store(shared->count.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
    };
    return interleavings::Run{.threads = {add, add}, .at_end = [shared] {
                                check(shared->count.load(std::memory_order_relaxed) == 2, "lost");
                              }};
  });
  EXPECT_EQ(lost.error, "lost");
  const interleavings::Report stuck = interleavings::explore([] {
    return interleavings::Run{.threads = {[] { wait_for_change(changes()); }}, .at_end = {}};
  });
  EXPECT_EQ(stuck.error, "all threads wait");
}

}  // namespace
}  // namespace rockhopper::ami
