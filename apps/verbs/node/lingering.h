// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace rockhopper::verbs {

/// Whether a poll that has found completions is to look for packets a little longer before it
/// returns, because the application then waits for bytes that a peer writes, and nobody would look.
///
/// It is tried after the thread has found such a WRITE, a few times. Where the bytes then come
/// promptly it is done at each poll. Where they do not, more and more WRITEs have to be found
/// before it is tried again, so that an application that computes meanwhile loses next to nothing.
class Lingering {
 public:
  /// What a peer writes in answer to what it has just seen comes within so long; later it is
  /// chance.
  static constexpr std::uint64_t kPromptNs = 10'000;
  /// A poll lingers for longer, as the peer may have to fall into step.
  static constexpr std::uint64_t kLongestNs = 40'000;

  /// For a poll. Any thread.
  [[nodiscard]] bool is_wanted() const { return credit_.load(std::memory_order_relaxed) != 0; }
  /// A poll has lingered for so long, and has seen a WRITE in the end or not. Any thread.
  void on_lingered(std::uint64_t ns, bool found) {
    const std::uint32_t credit = credit_.load(std::memory_order_relaxed);
    const bool pays = found && ns <= kPromptNs;
    if (pays) has_paid_.store(true, std::memory_order_relaxed);
    credit_.store(pays ? std::min(credit + kTries, kCreditMax) : credit - std::min(credit, 1u),
                  std::memory_order_relaxed);
  }
  /// The thread, which calls it, has found WRITEs.
  void on_missed() {
    if (credit_.load(std::memory_order_relaxed) != 0) return;
    if (has_paid_.exchange(false, std::memory_order_relaxed)) {
      misses_to_wait_ = 0;
    } else if (misses_ < misses_to_wait_) {
      ++misses_;
      return;
    } else {
      misses_to_wait_ = std::min(2 * misses_to_wait_ + 1, kMissesMax);
    }
    misses_ = 0;
    credit_.store(kTries, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kTries = 4;
  static constexpr std::uint32_t kCreditMax = 16;
  static constexpr std::uint32_t kMissesMax = 1023;

  std::atomic<std::uint32_t> credit_{0};
  std::atomic<bool> has_paid_{false};
  std::uint32_t misses_ = 0;
  std::uint32_t misses_to_wait_ = 0;
};

}  // namespace rockhopper::verbs
