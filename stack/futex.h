// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>

namespace rockhopper::stack {

/// Whose threads sleep on a word: this process's, or also others' that share its memory.
enum class FutexScope : std::uint8_t { process, shared };

/// Sleeps while `word` is `expected`, until wake_futex(), until CLOCK_MONOTONIC reaches
/// `deadline_ns` (UINT64_MAX: for ever), or for no reason.
void wait_on_futex(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                   std::uint64_t deadline_ns, FutexScope scope = FutexScope::process) noexcept;
/// Wakes up to `count` threads that sleep on the word.
void wake_futex(const std::atomic<std::uint32_t>& word, int count,
                FutexScope scope = FutexScope::process) noexcept;

}  // namespace rockhopper::stack
