// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "apps/services/ami/sync.h"

namespace rockhopper::ami {

/// The completion bit mask of an injection FIFO: a bit for each slot (AM-7), above it bits that say
/// which words have some, up to one word. So nothing costs one load, and what is set is found
/// without a look at what is not (AM-25). One thread sets bits, another takes them.
template <typename S = Sync>
class CompletionMask {
 public:
  explicit CompletionMask(std::uint32_t slots) {
    for (std::size_t words = slots; words > kBits;) {
      words = (words + kBits - 1) / kBits;
      levels_.push_back(std::make_unique<Word[]>(words));
    }
  }

  /// What the thread has written before is visible to the thread that takes the bit (AM-29).
  void set(std::uint32_t slot) {
    std::size_t place = slot;
    for (const auto& level : levels_) {
      level[place / kBits].fetch_or(std::uint64_t{1} << place % kBits, std::memory_order_release);
      place /= kBits;
    }
    top_.fetch_or(std::uint64_t{1} << place, std::memory_order_release);
  }

  /// Clears the bits that are set, and calls `each(slot)` after that.
  template <typename Each>
  void take(Each&& each) {
    if (any()) take_word(top_, levels_.size(), 0, each);
  }

  [[nodiscard]] bool any() const { return top_.load(std::memory_order_relaxed) != 0; }

 private:
  static constexpr std::size_t kBits = 64;
  using Word = typename S::template Atomic<std::uint64_t>;

  template <typename Each>
  void take_word(Word& word, std::size_t level, std::size_t index, Each& each) {
    // From the top down: a bit that is set behind our back has its way up still to go.
    std::uint64_t bits = word.exchange(0, std::memory_order_acquire);
    for (; bits != 0; bits &= bits - 1) {
      const std::size_t place = index * kBits + static_cast<unsigned>(std::countr_zero(bits));
      if (level == 0) {
        each(static_cast<std::uint32_t>(place));
      } else {
        take_word(levels_[level - 1][place], level - 1, place, each);
      }
    }
  }

  alignas(64) Word top_{0};                      ///< so that a look costs one load
  std::vector<std::unique_ptr<Word[]>> levels_;  ///< below it, that of the slots first
};

}  // namespace rockhopper::ami
