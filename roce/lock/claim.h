// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "roce/lock/region.h"
#include "roce/wire/lketh.h"

namespace rockhopper::roce::lock {

enum class Mode : std::uint8_t {
  exclusive,
  shared,
  foreign_swap,  ///< a word whose layout only the requester knows, see wire::LockOperation
  foreign_add,
};

[[nodiscard]] constexpr bool is_foreign(Mode mode) {
  return mode == Mode::foreign_swap || mode == Mode::foreign_add;
}

// What becomes of a word, by whatever code changes it then: functions from value to value. They
// return nothing if the word does not allow it.

/// A conditional read-modify-write of a foreign mode.
[[nodiscard]] std::optional<std::uint64_t> performed(std::uint64_t word, Mode mode,
                                                     const wire::LockOperation& operation);
/// Taken; `operation` and `owner` where the mode has them.
[[nodiscard]] std::optional<std::uint64_t> taken(std::uint64_t word, Mode mode, std::uint16_t owner,
                                                 bool leased, const wire::LockOperation& operation);
/// Freed, of a native word that was taken when it was `before`.
[[nodiscard]] std::optional<std::uint64_t> freed(std::uint64_t word, Mode mode, std::uint16_t owner,
                                                 std::uint64_t before);

/// A claim to one lock word, and what came of it. take() and give_back() are atomic with respect to
/// the CPU's own atomics on the word (LK-26), and may be called from any thread.
struct Claim {
  std::uint64_t* word = nullptr;  ///< aligned to 8
  Region* region = nullptr;
  Mode mode = Mode::exclusive;
  bool leased = false;
  std::uint16_t owner = 0;
  wire::LockOperation operation{};  ///< foreign

  std::uint64_t previous = 0;  ///< the word as it was last found
  std::uint64_t before = 0;    ///< the word as it was when the claim was granted
  std::uint64_t token = 0;     ///< of a claim that was granted

  /// Looks at the word once, and takes it if it allows that.
  [[nodiscard]] bool take();
  /// Makes the word free again, or takes a reader from it. Returns false, and changes nothing, if
  /// the word is not held by this claim (any more). Not for foreign words, see perform().
  [[nodiscard]] bool give_back();
  /// Puts back what take() has changed, for a holder that is gone. Returns false as give_back()
  /// does; what it finds of a foreign word is not checked.
  [[nodiscard]] bool undo();
  /// A conditional read-modify-write; `previous` is the word before. Returns false if the condition
  /// is not met.
  [[nodiscard]] bool perform(const wire::LockOperation& what, bool add);

  [[nodiscard]] bool is_foreign() const { return lock::is_foreign(mode); }
};

}  // namespace rockhopper::roce::lock
