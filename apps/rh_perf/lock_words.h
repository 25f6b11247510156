// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/error.h"

namespace rockhopper::apps::perf {

/// What the scopes of all queue pairs act on: a lock word (roce/lock/lock_word.h), and the counter
/// behind it to which each of them adds 1. Both begin with 0.
inline constexpr std::size_t kLockWordCount = 2;

/// Fails unless so many scopes, and no other, have taken and freed the lock and have counted.
[[nodiscard]] Expected<void> check_lock_words(std::span<const std::uint64_t> words,
                                              std::uint64_t scopes);

}  // namespace rockhopper::apps::perf
