// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/process_barrier.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/affinity.h"

// Unit tests are built without optimisation, which puts too much between a thread's write and its
// read.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif

namespace rockhopper::test {
namespace {

struct alignas(64) Word {
  std::atomic<unsigned> value{0};
};

/// Waits until `word` is `value`; false: it has become 0. Reads `other` too, so that its cache line
/// is at hand, and a write to it by another processor takes its time.
bool await(const Word& word, unsigned value, const Word& other) {
  unsigned found = 0;
  while ((found = word.value.load(std::memory_order_acquire)) != value && found != 0) {
    (void)other.value.load(std::memory_order_acquire);
  }
  (void)other.value.load(std::memory_order_acquire);
  return found != 0;
}

/// Two threads, each of which writes its word and then reads the other's: one of them at least sees
/// what the other has written. Only one has a barrier in between, for both. As many rounds as there
/// are in a second: without the barrier they are short, and one of thousands goes wrong.
TEST(ProcessBarrier, ServesWhoHasNone) {
  if (!stack::join_process_barriers()) {
    GTEST_SKIP() << "the system has no membarrier()";
  }
  constexpr unsigned kEnd = 0;  // a round that never is
  Word begun{1};
  Word ended{1};
  std::array<Word, 2> words;
  unsigned seen = 0;
  std::thread thread([&] {
    const OnProcessor second(1);
    for (unsigned round = 2; await(begun, round, words[1]); ++round) {
      words[0].value.store(round, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      seen = words[1].value.load(std::memory_order_relaxed);
      ended.value.store(round, std::memory_order_release);
    }
  });
  const OnProcessor first(0);
  unsigned missed = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (unsigned round = 2; std::chrono::steady_clock::now() < end; ++round) {
    begun.value.store(round, std::memory_order_release);
    for (unsigned reads = round % 64; reads > 0; --reads) {
      (void)words[0].value.load(std::memory_order_acquire);
    }
    words[1].value.store(round, std::memory_order_relaxed);
    stack::process_barrier();
    const bool sees = words[0].value.load(std::memory_order_relaxed) == round;
    (void)await(ended, round, words[0]);
    missed += !sees && seen != round ? 1 : 0;
  }
  begun.value.store(kEnd, std::memory_order_release);
  thread.join();
  EXPECT_EQ(missed, 0u);
}

}  // namespace
}  // namespace rockhopper::test

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
