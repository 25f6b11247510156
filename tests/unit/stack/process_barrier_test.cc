// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/process_barrier.h"

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace rockhopper::test {
namespace {

struct alignas(64) Word {
  std::atomic<unsigned> value{0};
};

/// Waits until `word` is `value`. Reads `other` too, so that its cache line is at hand, and a write
/// to it by another processor takes its time.
void await(const Word& word, unsigned value, const Word& other) {
  while (word.value.load(std::memory_order_acquire) != value) {
    (void)other.value.load(std::memory_order_acquire);
  }
  (void)other.value.load(std::memory_order_acquire);
}

/// Two threads, each of which writes its word and then reads the other's: one of them at least sees
/// what the other has written. Only one has a barrier in between, for both.
TEST(ProcessBarrier, ServesWhoHasNone) {
  constexpr unsigned kRounds = 10'000;
  if (!stack::join_process_barriers()) {
    GTEST_SKIP() << "the system has no membarrier()";
  }
  Word begun;
  Word ended;
  std::array<Word, 2> words;
  unsigned seen = 0;
  std::thread thread([&] {
    for (unsigned round = 1; round <= kRounds; ++round) {
      await(begun, round, words[1]);
      words[0].value.store(round, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      seen = words[1].value.load(std::memory_order_relaxed);
      ended.value.store(round, std::memory_order_release);
    }
  });
  unsigned missed = 0;
  for (unsigned round = 1; round <= kRounds; ++round) {
    begun.value.store(round, std::memory_order_release);
    for (unsigned reads = round % 64; reads > 0; --reads) {
      (void)words[0].value.load(std::memory_order_acquire);
    }
    words[1].value.store(round, std::memory_order_relaxed);
    stack::process_barrier();
    const bool sees = words[0].value.load(std::memory_order_relaxed) == round;
    await(ended, round, words[0]);
    missed += !sees && seen != round ? 1 : 0;
  }
  thread.join();
  EXPECT_EQ(missed, 0u);
}

}  // namespace
}  // namespace rockhopper::test
