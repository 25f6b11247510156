// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>

namespace rockhopper::verbs {

/// Sleeps while `word` is `expected`, until wake_futex(), until CLOCK_MONOTONIC reaches
/// `deadline_ns` (UINT64_MAX: for ever), or for no reason. The word is this process's alone.
void wait_on_futex(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                   std::uint64_t deadline_ns) noexcept;
/// Wakes up to `count` threads that sleep on the word.
void wake_futex(const std::atomic<std::uint32_t>& word, int count) noexcept;

}  // namespace rockhopper::verbs
