// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/lock_words.h"

#include "roce/lock/lock_word.h"

namespace rockhopper::apps::perf {

Expected<void> check_lock_words(std::span<const std::uint64_t> words, std::uint64_t scopes) {
  const auto lock = roce::lock::LockWord::from(words[0]);
  // The generation counts how often the word became free, modulo its 24 bits.
  const auto last = roce::lock::LockWord::from(scopes << 40);
  if (lock == last && words[1] == scopes) return {};
  return fail(ErrorCode::io,
              "invalid data: {} scopes have left the lock word {:#018x} and the counter {}", scopes,
              words[0], words[1]);
}

}  // namespace rockhopper::apps::perf
