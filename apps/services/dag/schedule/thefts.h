// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rockhopper::dag {

/// Who has the node of an entry.
enum class Fate : std::uint8_t {
  won,   ///< this worker
  gone,  ///< another one; or it is no node of a run any more
  left,  ///< nobody so far: it is not for this worker, or not now
};

/// What has become of the entries that attempts to steal have found. Claims come first, and only
/// then is what is gone taken away from the victim, so that a ready node is always in some living
/// worker's deque until it has been claimed, whoever dies when. Half of what a victim has changes
/// sides, as far as it goes: what the thief cannot run soon it makes pending again and has in its
/// own deques then, where others find it.
class Thefts {
 public:
  /// `attempts` at a time, each with up to 64 entries.
  explicit Thefts(std::size_t attempts) : thefts_(attempts) {}

  /// What is known when all claims of an attempt have been decided.
  struct Settled {
    std::uint64_t gone = 0;  ///< entries, from the oldest one on
    bool successful = false;
  };

  /// An attempt has found so many entries, the oldest one first. Claims of them follow, then
  /// on_all_claimed().
  void begin(unsigned attempt, std::size_t entries) {
    assert(entries <= 64);
    thefts_[attempt] = {.entries = entries, .is_claiming = true};
  }
  /// One of the entries is being claimed, or looked at before; decide() follows.
  void on_claim(unsigned attempt) {
    assert(thefts_[attempt].is_claiming);
    ++thefts_[attempt].open;
  }
  /// No more of the entries are claimed. Returns what is known if that is all there is to know.
  [[nodiscard]] std::optional<Settled> on_all_claimed(unsigned attempt) {
    assert(thefts_[attempt].is_claiming);
    thefts_[attempt].is_claiming = false;
    return settled(attempt);
  }
  /// It is known who has the node of entry `number`. Returns what on_all_claimed() does.
  [[nodiscard]] std::optional<Settled> decide(unsigned attempt, unsigned number, Fate fate) {
    Theft& theft = thefts_[attempt];
    assert(theft.open > 0 && number < theft.entries);
    --theft.open;
    if (fate != Fate::left) theft.gone |= std::uint64_t{1} << number;
    if (fate == Fate::won) theft.successful = true;
    return settled(attempt);
  }

 private:
  struct Theft {
    std::uint64_t gone = 0;  ///< a bit for each entry
    std::size_t entries = 0;
    std::size_t open = 0;  ///< claims that are not decided
    bool is_claiming = false;
    bool successful = false;
  };
  [[nodiscard]] std::optional<Settled> settled(unsigned attempt) const {
    const Theft& theft = thefts_[attempt];
    if (theft.open > 0 || theft.is_claiming) return std::nullopt;
    std::uint64_t gone = 0;
    while (gone < theft.entries && (theft.gone >> gone & 1) != 0) {
      ++gone;
    }
    return Settled{.gone = gone, .successful = theft.successful};
  }

  std::vector<Theft> thefts_;  ///< by attempt
};

}  // namespace rockhopper::dag
