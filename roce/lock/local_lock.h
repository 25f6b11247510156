// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/lock/claim.h"
#include "roce/lock/lock_word.h"
#include "roce/lock/region.h"

namespace rockhopper::roce::lock {

/// A thread of the target's own process and one lock word, which peers take too (LK-10, LK-26):
/// try_lock() and its shared sister, as of C++'s lockable types; how to wait in between is the
/// thread's affair. Each thread has an object of its own. Peers that wait for the word get it when
/// it is free: they are told by the next turn of an engine that serves the region.
class LocalLock {
 public:
  /// `word` is in the region, aligned to 8; `owner` is what it says of the holder.
  LocalLock(Region& region, std::uint64_t* word, std::uint16_t owner)
      : claim_{.word = word, .region = &region, .owner = owner} {}
  LocalLock(const LocalLock&) = delete;
  LocalLock& operator=(const LocalLock&) = delete;

  [[nodiscard]] bool try_lock() { return take(Mode::exclusive); }
  [[nodiscard]] bool try_lock_shared() { return take(Mode::shared); }
  /// Returns false if it is not held (any more); then nothing has changed.
  bool unlock() {
    const bool done = claim_.give_back();
    if (!done) {
      claim_.region->count(&Region::Statistics::foreign_releases);
    } else if (LockWord::from(claim_.previous).has_waiters()) {
      claim_.region->note_release();
    }
    return done;
  }
  bool unlock_shared() { return unlock(); }

  /// The fencing token of the last time that the lock was taken.
  [[nodiscard]] std::uint64_t token() const { return claim_.token; }

 private:
  [[nodiscard]] bool take(Mode mode) {
    claim_.mode = mode;
    if (!claim_.take()) return false;
    claim_.region->count(&Region::Statistics::grants);
    return true;
  }

  Claim claim_;
};

}  // namespace rockhopper::roce::lock
