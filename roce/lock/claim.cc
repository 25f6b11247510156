// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/lock/claim.h"

#include <atomic>
#include <optional>

#include "roce/lock/lock_word.h"
#include "roce/masked_atomic.h"

namespace rockhopper::roce::lock {
namespace {

/// Applies `change(value)`, which gives the new value or nothing, to the word. `found` is what the
/// word was.
template <typename Change>
bool update(std::uint64_t* word, std::uint64_t& found, Change change) {
  std::atomic_ref<std::uint64_t> shared(*word);
  found = shared.load(std::memory_order_acquire);
  while (true) {
    const std::optional<std::uint64_t> next = change(found);
    if (!next) return false;
    if (shared.compare_exchange_weak(found, *next)) return true;
  }
}

std::optional<std::uint64_t> value_of(const std::optional<LockWord>& word) {
  return word ? std::optional(word->value()) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> performed(std::uint64_t word, Mode mode,
                                       const wire::LockOperation& operation) {
  if (((word ^ operation.compare) & operation.compare_mask) != 0) return std::nullopt;
  return mode == Mode::foreign_add
             ? masked_add(word, operation.swap_add, operation.mask)
             : (word & ~operation.mask) | (operation.swap_add & operation.mask);
}

std::optional<std::uint64_t> taken(std::uint64_t word, Mode mode, std::uint16_t owner, bool leased,
                                   const wire::LockOperation& operation) {
  switch (mode) {
    case Mode::exclusive:
      return value_of(acquire_exclusive(LockWord::from(word), owner, leased));
    case Mode::shared:
      return value_of(acquire_shared(LockWord::from(word)));
    case Mode::foreign_swap:
    case Mode::foreign_add:
      break;
  }
  return performed(word, mode, operation);
}

std::optional<std::uint64_t> freed(std::uint64_t word, Mode mode, std::uint16_t owner,
                                   std::uint64_t before) {
  const LockWord now = LockWord::from(word);
  return value_of(mode == Mode::shared
                      ? release_shared(now)
                      : release_exclusive(now, owner, LockWord::from(before).generation));
}

bool Claim::take() {
  const bool done = update(word, previous, [this](std::uint64_t value) {
    return taken(value, mode, owner, leased, operation);
  });
  if (done) {
    before = previous;
    token = region->draw_token();
  }
  return done;
}

bool Claim::give_back() {
  return update(word, previous,
                [this](std::uint64_t value) { return freed(value, mode, owner, before); });
}

bool Claim::undo() {
  if (!is_foreign()) return give_back();
  const std::uint64_t mask = operation.mask;
  // In each field the negative: the complement and one.
  const std::uint64_t negative = masked_add(~operation.swap_add, mask << 1 | 1, mask);
  return update(word, previous, [&](std::uint64_t value) -> std::optional<std::uint64_t> {
    return mode == Mode::foreign_add ? masked_add(value, negative, mask)
                                     : (value & ~mask) | (before & mask);
  });
}

bool Claim::perform(const wire::LockOperation& what, bool add) {
  const Mode how = add ? Mode::foreign_add : Mode::foreign_swap;
  return update(word, previous, [&](std::uint64_t value) { return performed(value, how, what); });
}

}  // namespace rockhopper::roce::lock
