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

bool Claim::take() {
  bool taken = false;
  switch (mode) {
    case Mode::exclusive:
      taken = update(word, previous, [this](std::uint64_t value) {
        return value_of(acquire_exclusive(LockWord::from(value), owner, leased));
      });
      break;
    case Mode::shared:
      taken = update(word, previous, [](std::uint64_t value) {
        return value_of(acquire_shared(LockWord::from(value)));
      });
      break;
    case Mode::foreign_swap:
    case Mode::foreign_add:
      taken = perform(operation, mode == Mode::foreign_add);
      break;
  }
  if (taken) {
    before = previous;
    token = region->next_token();
  }
  return taken;
}

bool Claim::give_back() {
  const std::uint32_t since = LockWord::from(before).generation;
  return update(word, previous, [&](std::uint64_t value) {
    const LockWord now = LockWord::from(value);
    return value_of(mode == Mode::shared ? release_shared(now)
                                         : release_exclusive(now, owner, since));
  });
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
  return update(word, previous, [&](std::uint64_t value) -> std::optional<std::uint64_t> {
    if (((value ^ what.compare) & what.compare_mask) != 0) return std::nullopt;
    return add ? masked_add(value, what.swap_add, what.mask)
               : (value & ~what.mask) | (what.swap_add & what.mask);
  });
}

}  // namespace rockhopper::roce::lock
