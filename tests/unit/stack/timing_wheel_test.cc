// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/timing_wheel.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "stack/link.h"
#include "stack/random.h"
#include "tests/support/seed.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint64_t kTickNs = 4096;

/// A timer that notes when it fired and then does what it is told.
struct Probe {
  Timer timer{[](void* context, std::uint64_t now_ns) {
                auto* probe = static_cast<Probe*>(context);
                probe->fired.push_back(now_ns);
                if (probe->then) probe->then(now_ns);
              },
              this};
  std::vector<std::uint64_t> fired{};
  std::function<void(std::uint64_t now_ns)> then{};
};

TEST(TimingWheel, RoundsItsTickDownToAPowerOfTwo) {
  EXPECT_EQ(TimingWheel(1).tick_ns(), 1u);
  EXPECT_EQ(TimingWheel(4095).tick_ns(), 2048u);
  EXPECT_EQ(TimingWheel(4096).tick_ns(), 4096u);
}

TEST(TimingWheel, FiresOnceNotEarlyAndLessThanATickLate) {
  TimingWheel wheel(kTickNs);
  Probe probe;
  EXPECT_EQ(wheel.next_deadline_ns(), kNever);
  wheel.arm(probe.timer, 10'000);
  EXPECT_TRUE(probe.timer.armed());
  EXPECT_EQ(probe.timer.deadline_ns(), 10'000u);
  wheel.advance(9'999);
  EXPECT_TRUE(probe.fired.empty());
  wheel.advance(10'000 + kTickNs);
  EXPECT_EQ(probe.fired, std::vector<std::uint64_t>{10'000 + kTickNs});
  EXPECT_FALSE(probe.timer.armed());
  EXPECT_TRUE(wheel.empty());
  wheel.advance(1'000'000);
  EXPECT_EQ(probe.fired.size(), 1u);
}

TEST(TimingWheel, FiresAtOnceWhatIsPastAndNeverWhatIsNever) {
  TimingWheel wheel(kTickNs);
  wheel.advance(1'000'000'000);
  Probe past;
  Probe never;
  wheel.arm(past.timer, 5);
  wheel.arm(never.timer, kNever);
  EXPECT_FALSE(never.timer.armed());
  EXPECT_LE(wheel.next_deadline_ns(), 1'000'000'000u);
  wheel.advance(1'000'000'000);
  EXPECT_EQ(past.fired.size(), 1u);
  wheel.arm(past.timer, 2'000'000'000);
  wheel.arm(past.timer, kNever);
  EXPECT_FALSE(past.timer.armed());
  EXPECT_EQ(wheel.next_deadline_ns(), kNever);
}

TEST(TimingWheel, RearmingMovesTheDeadlineBothWays) {
  TimingWheel wheel(kTickNs);
  Probe probe;
  wheel.arm(probe.timer, 100 * kTickNs);
  wheel.arm(probe.timer, 500 * kTickNs);
  EXPECT_EQ(probe.timer.deadline_ns(), 500 * kTickNs);
  wheel.advance(499 * kTickNs);
  EXPECT_TRUE(probe.fired.empty());
  wheel.arm(probe.timer, 1000 * kTickNs);
  wheel.arm(probe.timer, 501 * kTickNs);
  wheel.advance(501 * kTickNs);
  EXPECT_EQ(probe.fired.size(), 1u);
}

TEST(TimingWheel, CancelledTimersDoNotFire) {
  TimingWheel wheel(kTickNs);
  Probe probe;
  wheel.cancel(probe.timer);
  for (const std::uint64_t tick : {0ull, 3ull, 70ull, 5000ull, 1ull << 40}) {
    wheel.arm(probe.timer, tick * kTickNs);
    wheel.cancel(probe.timer);
    EXPECT_EQ(wheel.next_deadline_ns(), kNever);
  }
  {  // Destruction disarms.
    Probe short_lived;
    wheel.arm(short_lived.timer, 7 * kTickNs);
  }
  EXPECT_TRUE(wheel.empty());
  wheel.advance(1ull << 60);
  EXPECT_TRUE(probe.fired.empty());
}

TEST(TimingWheel, DisarmsItsTimersWhenItEnds) {
  Probe probe;
  {
    TimingWheel wheel(kTickNs);
    wheel.arm(probe.timer, 1);
  }
  EXPECT_FALSE(probe.timer.armed());
}

TEST(TimingWheel, ATimerMovesFromOneWheelToAnother) {
  TimingWheel first(kTickNs);
  TimingWheel second(kTickNs);
  Probe probe;
  first.arm(probe.timer, 10 * kTickNs);
  second.arm(probe.timer, 20 * kTickNs);
  EXPECT_TRUE(first.empty());
  first.advance(100 * kTickNs);
  EXPECT_TRUE(probe.fired.empty());
  second.advance(100 * kTickNs);
  EXPECT_EQ(probe.fired.size(), 1u);
}

TEST(TimingWheel, ACallbackMayRearmItselfAndIsNotCalledTwiceInOneAdvance) {
  // Whether the new deadline is before the tick being worked off, or after it but not after now.
  for (const std::uint64_t again_ns : {std::uint64_t{0}, 50 * kTickNs, 100 * kTickNs}) {
    TimingWheel wheel(kTickNs);
    Probe probe;
    probe.then = [&](std::uint64_t) { wheel.arm(probe.timer, again_ns); };
    wheel.arm(probe.timer, kTickNs);
    wheel.advance(100 * kTickNs);
    EXPECT_EQ(probe.fired.size(), 1u);
    EXPECT_LE(wheel.next_deadline_ns(), 100 * kTickNs);
    wheel.advance(100 * kTickNs);
    EXPECT_EQ(probe.fired.size(), 2u);
  }
}

TEST(TimingWheel, ACallbackMayDestroyTimersOfTheSameSlotAndItself) {
  TimingWheel wheel(kTickNs);
  std::vector<std::unique_ptr<Probe>> probes;
  int fired = 0;
  for (int i = 0; i < 8; ++i) {
    probes.push_back(std::make_unique<Probe>());
    probes.back()->then = [&](std::uint64_t) {
      ++fired;
      // A local copy: the function object goes with the probe.
      auto* all = &probes;
      all->clear();
    };
    wheel.arm(probes.back()->timer, 5 * kTickNs);
  }
  wheel.advance(5 * kTickNs);
  EXPECT_EQ(fired, 1);
  EXPECT_TRUE(wheel.empty());
}

TEST(TimingWheel, FollowingNextDeadlineReachesTheFarthestTimerInAFewSteps) {
  for (const unsigned bits : {0u, 5u, 6u, 11u, 12u, 31u, 35u, 36u, 37u, 40u, 50u}) {
    TimingWheel wheel(kTickNs);
    Probe probe;
    const std::uint64_t deadline_ns = (std::uint64_t{1} << bits) * kTickNs + 17;
    wheel.arm(probe.timer, deadline_ns);
    int steps = 0;
    std::uint64_t now_ns = 0;
    while (probe.fired.empty()) {
      const std::uint64_t next_ns = wheel.next_deadline_ns();
      ASSERT_LE(next_ns, deadline_ns + kTickNs);
      // Beyond 2^36 ticks (78 hours) the wheel looks at a timer once each such time.
      const auto allowed = 8 + static_cast<int>(bits > 36 ? 1u << (bits - 36) : 0u);
      ASSERT_LE(++steps, allowed) << bits;
      now_ns = std::max(now_ns, next_ns);
      wheel.advance(now_ns);
    }
    EXPECT_GE(now_ns, deadline_ns);
    EXPECT_LT(now_ns, deadline_ns + kTickNs);
  }
}

/// Random operations against a model: the ordered set of deadlines.
class TimingWheelModel : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static constexpr std::size_t kTimers = 64;

  /// A time ahead, of random magnitude, so that all levels and the overflow list are met.
  std::uint64_t random_span() { return random_.next() >> (4 + random_.below(60)); }

  void arm(std::size_t index, std::uint64_t deadline_ns) {
    wheel_.arm(probes_[index].timer, deadline_ns);
    model_[index] = deadline_ns;
    armed_in_advance_[index] = advancing_;
  }
  void cancel(std::size_t index) {
    wheel_.cancel(probes_[index].timer);
    model_.erase(index);
  }
  void on_fire(std::size_t index, std::uint64_t now_ns) {
    ASSERT_EQ(model_.count(index), 1u) << "fired without being armed";
    ASSERT_LE(model_[index], now_ns) << "fired early";
    model_.erase(index);
    if (random_.below(3) == 0) arm(index, now_ns + random_span());
    const std::size_t other = random_.below(kTimers);
    if (random_.below(4) == 0) cancel(other);
    if (random_.below(4) == 0) arm(other, now_ns + random_span());
    if (random_.below(4) == 0) arm(other, now_ns - std::min(now_ns, random_span()));
  }
  void advance(std::uint64_t now_ns) {
    armed_in_advance_.assign(kTimers, false);
    advancing_ = true;
    wheel_.advance(now_ns);
    advancing_ = false;
    advanced_ns_ = now_ns;
    for (const auto& [index, deadline_ns] : model_) {
      const std::uint64_t fires_ns = (deadline_ns + tick_ns() - 1) / tick_ns() * tick_ns();
      ASSERT_TRUE(fires_ns > now_ns || armed_in_advance_[index]) << "did not fire";
    }
  }
  void check() {
    std::uint64_t first_ns = kNever;
    for (std::size_t i = 0; i < kTimers; ++i) {
      ASSERT_EQ(probes_[i].timer.armed(), model_.count(i) == 1) << i;
      if (model_.count(i) == 1) {
        ASSERT_EQ(probes_[i].timer.deadline_ns(), model_[i]);
        first_ns = std::min(first_ns, model_[i]);
      }
    }
    ASSERT_EQ(wheel_.empty(), model_.empty());
    if (first_ns == kNever) {
      ASSERT_EQ(wheel_.next_deadline_ns(), kNever);
    } else {
      // What is past is due now.
      ASSERT_LT(wheel_.next_deadline_ns(), std::max(first_ns, advanced_ns_) + tick_ns());
    }
  }
  [[nodiscard]] std::uint64_t tick_ns() const { return wheel_.tick_ns(); }

  Random random_{test::seed() + GetParam()};
  TimingWheel wheel_{std::uint64_t{1} << random_.below(21)};
  std::vector<Probe> probes_{kTimers};
  std::map<std::size_t, std::uint64_t> model_;
  std::vector<bool> armed_in_advance_ = std::vector<bool>(kTimers);
  bool advancing_ = false;
  std::uint64_t advanced_ns_ = 0;
};

TEST_P(TimingWheelModel, AgreesUnderRandomOperations) {
  for (std::size_t i = 0; i < kTimers; ++i) {
    probes_[i].then = [this, i](std::uint64_t now_ns) { on_fire(i, now_ns); };
  }
  std::uint64_t now_ns = random_.below(2) == 0 ? 0 : random_.next() >> 8;
  for (int step = 0; step < 3000; ++step) {
    const std::size_t index = random_.below(kTimers);
    switch (random_.below(6)) {
      case 0:
      case 1:
        arm(index, now_ns + random_span());
        break;
      case 2:
        arm(index, now_ns - std::min(now_ns, random_span()));
        break;
      case 3:
        cancel(index);
        break;
      case 4:
        now_ns += random_span() >> 8;
        advance(now_ns);
        break;
      default:
        // The virtual clock's way: straight to the next deadline, if it is not too far.
        if (wheel_.next_deadline_ns() < std::uint64_t{1} << 62) {
          now_ns = std::max(now_ns, wheel_.next_deadline_ns());
        }
        advance(now_ns);
    }
    if (HasFatalFailure()) return;
    check();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TimingWheelModel,
                         ::testing::Range(std::uint64_t{0}, std::uint64_t{50}));

TEST(TimingWheel, FiresInTheOrderOfTicks) {
  Random random(test::seed());
  for (int round = 0; round < 200; ++round) {
    TimingWheel wheel(kTickNs);
    std::vector<Probe> probes(100);
    std::vector<std::uint64_t> order;
    for (Probe& probe : probes) {
      // Re-arming for later keeps the slot: the order must hold nevertheless.
      wheel.arm(probe.timer, 1 + (random.next() >> (20 + random.below(40))));
      if (random.below(2) == 0) {
        wheel.arm(probe.timer,
                  probe.timer.deadline_ns() + (random.next() >> (20 + random.below(40))));
      }
      const std::uint64_t tick = (probe.timer.deadline_ns() + kTickNs - 1) / kTickNs;
      probe.then = [&order, tick](std::uint64_t) { order.push_back(tick); };
    }
    wheel.advance(std::uint64_t{1} << 50);
    EXPECT_EQ(order.size(), probes.size());
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

}  // namespace
}  // namespace rockhopper::stack
