// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::stack {

/// What a polling loop does while no packet moves.
enum class IdlePolicy : std::uint8_t {
  poll,   ///< polls on: the lowest latency, and a CPU of its own
  yield,  ///< lets another thread run on the CPU, if one waits
  sleep,  ///< sleeps up to kIdleSleepNs, and after a while up to kLongIdleSleepNs
};

inline constexpr std::uint64_t kIdleSleepNs = 50'000;
/// When nothing has moved for some 20 ms: a process that only waits for its peer then wakes up a
/// tenth as often.
inline constexpr std::uint64_t kLongIdleSleepNs = 500'000;

/// Follows an idle policy in a polling loop. For one thread.
class Idler {
 public:
  explicit Idler(IdlePolicy policy) : policy_(policy) {}
  void set_policy(IdlePolicy policy) { policy_ = policy; }

  /// After every turn: whether it did anything. True when it is time to rest().
  [[nodiscard]] bool is_time(bool worked) {
    idle_turns_ = worked ? 0 : idle_turns_ + 1;
    return policy_ != IdlePolicy::poll && idle_turns_ >= kTurnsBeforeRest;
  }
  /// How long a sleep may last now.
  [[nodiscard]] std::uint64_t longest_sleep_ns() const {
    return idle_turns_ < kTurnsBeforeLongRest ? kIdleSleepNs : kLongIdleSleepNs;
  }
  /// Yields, or sleeps until there is work in `until_work_ns` nanoseconds at the latest. A signal
  /// ends the sleep early.
  void rest(std::uint64_t until_work_ns) const;
  /// The same until the time `next_ns`, which may have passed.
  void rest_until(std::uint64_t next_ns, std::uint64_t now_ns) const {
    rest(next_ns > now_ns ? next_ns - now_ns : 0);
  }

 private:
  /// Packets come in flights with short breaks.
  static constexpr std::uint32_t kTurnsBeforeRest = 32;
  /// A sleep of 50 us takes about 100, as the kernel wakes threads together.
  static constexpr std::uint32_t kTurnsBeforeLongRest = kTurnsBeforeRest + 200;

  IdlePolicy policy_;
  std::uint32_t idle_turns_ = 0;
};

}  // namespace rockhopper::stack
