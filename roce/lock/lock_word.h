// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

namespace rockhopper::roce::lock {

/// The native lock word (docs/wire.md) and what each command makes of it: functions from value to
/// value, which are applied by compare and swap. A word of 0 is free.
struct LockWord {
  enum class State : std::uint8_t { free = 0, exclusive = 1, shared = 2 };

  static constexpr std::uint8_t kWaiters = 1 << 0;  ///< flags: somebody waits at the target
  static constexpr std::uint8_t kLeased = 1 << 1;   ///< flags: held for a time only

  std::uint32_t generation;  ///< 24 bits; counts the times that it became free
  State state;
  std::uint8_t flags;     ///< 4 bits
  std::uint16_t owner;    ///< of an exclusive lock, as it calls itself
  std::uint16_t readers;  ///< of a shared one

  [[nodiscard]] static constexpr LockWord from(std::uint64_t value) {
    return {.generation = static_cast<std::uint32_t>(value >> 40),
            .state = static_cast<State>(value >> 36 & 0xf),
            .flags = static_cast<std::uint8_t>(value >> 32 & 0xf),
            .owner = static_cast<std::uint16_t>(value >> 16),
            .readers = static_cast<std::uint16_t>(value)};
  }
  [[nodiscard]] constexpr std::uint64_t value() const {
    return std::uint64_t{generation & 0xffffff} << 40 |
           std::uint64_t{static_cast<std::uint8_t>(state)} << 36 | std::uint64_t{flags} << 32 |
           std::uint64_t{owner} << 16 | readers;
  }
  [[nodiscard]] constexpr bool is_free() const { return state == State::free; }
  [[nodiscard]] constexpr bool has_waiters() const { return (flags & kWaiters) != 0; }
  /// Held exclusively since the word had that generation.
  [[nodiscard]] constexpr bool held_by(std::uint16_t who, std::uint32_t since) const {
    return state == State::exclusive && owner == who && generation == since;
  }
  friend constexpr bool operator==(const LockWord&, const LockWord&) = default;
};

/// The bit of a value that is LockWord::kWaiters.
inline constexpr std::uint64_t kWaitersBit = std::uint64_t{LockWord::kWaiters} << 32;

// These return nothing if the word does not allow it.

[[nodiscard]] constexpr std::optional<LockWord> acquire_exclusive(LockWord word,
                                                                  std::uint16_t owner,
                                                                  bool leased) {
  if (!word.is_free()) return std::nullopt;
  word.state = LockWord::State::exclusive;
  word.owner = owner;
  if (leased) word.flags |= LockWord::kLeased;
  return word;
}

[[nodiscard]] constexpr std::optional<LockWord> acquire_shared(LockWord word) {
  if (word.is_free()) {
    word.state = LockWord::State::shared;
    word.readers = 1;
    return word;
  }
  if (word.state != LockWord::State::shared || word.readers == UINT16_MAX) return std::nullopt;
  ++word.readers;
  return word;
}

[[nodiscard]] constexpr LockWord freed(LockWord word) {
  return {.generation = (word.generation + 1) & 0xffffff,
          .state = LockWord::State::free,
          .flags = static_cast<std::uint8_t>(word.flags & ~LockWord::kLeased),
          .owner = 0,
          .readers = 0};
}

[[nodiscard]] constexpr std::optional<LockWord> release_exclusive(LockWord word,
                                                                  std::uint16_t owner,
                                                                  std::uint32_t since) {
  if (!word.held_by(owner, since)) return std::nullopt;
  return freed(word);
}

/// Only those that have let a reader in know that it is one.
[[nodiscard]] constexpr std::optional<LockWord> release_shared(LockWord word) {
  if (word.state != LockWord::State::shared || word.readers == 0) return std::nullopt;
  if (word.readers == 1) return freed(word);
  --word.readers;
  return word;
}

}  // namespace rockhopper::roce::lock
