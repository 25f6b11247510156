// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/services/dag/graph/edge.h"

/// Deques of ready nodes in registered memory: their owner pushes and pops at the bottom with plain
/// loads and stores, others READ them and advance the top by CAS (DG-38). Both happen on the thread
/// of the owner's engine, which executes what peers send.
///
/// Entries are hints: which worker runs a node is decided by the CAS of its state alone. What must
/// hold is that a ready node does not get lost: the top passes over an entry only once its node is
/// known not to be ready any more, so that a thief claims first and takes away later. It may die
/// between.
namespace rockhopper::dag {

/// Runs have one of so many classes of priority; 0 is the most urgent one.
inline constexpr unsigned kPriorityClasses = 4;

/// A node that is ready, in 16 bytes: address / 64 << 24 | length / 64 rounded up, and
/// node << 32 | label << 8 | run's slot on the board. Its incarnation is the run's first one +
/// node.
struct DequeEntry {
  static constexpr std::size_t kSize = 16;

  std::uint64_t address = 0;  ///< of the node's record, a multiple of 64, below 2^46
  std::uint32_t length = 0;   ///< to be READ, a multiple of 64, below 2^30
  NodeIndex node = 0;
  /// 0: for anybody. Otherwise the record has to be looked at before the node is claimed, as it has
  /// an affinity: to the worker with this number, if kWorkerLabel is set, else to a label whose
  /// lower bits these are.
  std::uint32_t label = 0;  ///< below 2^24
  std::uint8_t run = 0;
  [[nodiscard]] constexpr std::array<std::uint64_t, 2> words() const {
    return {address / 64 << 24 | (std::uint64_t{length} + 63) / 64,
            std::uint64_t{node} << 32 | std::uint64_t{label} << 8 | run};
  }
  [[nodiscard]] static constexpr DequeEntry from(std::uint64_t first, std::uint64_t second) {
    return {.address = (first >> 24) * 64,
            .length = static_cast<std::uint32_t>(first & 0xffffff) * 64,
            .node = static_cast<NodeIndex>(second >> 32),
            .label = static_cast<std::uint32_t>(second >> 8 & 0xffffff),
            .run = static_cast<std::uint8_t>(second)};
  }
  friend bool operator==(const DequeEntry&, const DequeEntry&) = default;
};
inline constexpr std::uint32_t kWorkerLabel = 1u << 23;

/// What is in the memory, little endian: the ends of all classes, then the ring of each class.
struct DequeEnds {
  /// The number of the oldest entry. Only grows, but for an entry that the owner puts before it.
  std::uint64_t top = 0;
  /// One more than that of the youngest; the entry with number n is at n % capacity. Below top: all
  /// have been taken.
  std::uint64_t bottom = 0;
  [[nodiscard]] std::uint64_t size() const { return bottom > top ? bottom - top : 0; }
};
using DequeHead = std::array<DequeEnds, kPriorityClasses>;
static_assert(sizeof(DequeHead) == 64);

struct DequeLayout {
  std::uint32_t capacity = 256;  ///< entries of each class, a power of 2, 16 to 65536

  [[nodiscard]] constexpr std::uint64_t bytes() const {
    return sizeof(DequeHead) + std::uint64_t{kPriorityClasses} * capacity * DequeEntry::kSize;
  }
  [[nodiscard]] static constexpr std::uint64_t top_offset(unsigned priority) {
    return priority * sizeof(DequeEnds);
  }
  [[nodiscard]] constexpr std::uint64_t entry_offset(unsigned priority,
                                                     std::uint64_t number) const {
    return sizeof(DequeHead) +
           (std::uint64_t{priority} * capacity + number % capacity) * DequeEntry::kSize;
  }
};

/// The owner's end. Anything may be in the memory: peers can write the tops.
///
/// A number is used for another entry only when no thief can still have the old one in hand:
/// thieves take half of what they see at most, rounded up, and their CAS fails once the owner has
/// given all entries other numbers.
class Deques {
 public:
  /// `memory` has layout.bytes(), aligned to 64; it is cleared.
  Deques(std::span<std::byte> memory, const DequeLayout& layout);

  /// Returns false if there is no room.
  [[nodiscard]] bool push(unsigned priority, const DequeEntry& entry);
  /// At the top, where others take it first: a node that the owner may not run.
  [[nodiscard]] bool push_oldest(unsigned priority, const DequeEntry& entry);
  /// The entry pushed last that nobody has taken.
  [[nodiscard]] std::optional<DequeEntry> pop(unsigned priority);
  [[nodiscard]] std::uint64_t size(unsigned priority);
  [[nodiscard]] bool empty();
  /// The oldest entry, and taking it away, for an owner that finds its node gone.
  [[nodiscard]] std::optional<DequeEntry> oldest(unsigned priority);
  void drop_oldest(unsigned priority);
  /// Takes away all entries of a run that has ended.
  void remove_run(std::uint8_t run);

 private:
  /// The owner's own truth.
  struct End {
    std::uint64_t top = 0;
    std::uint64_t bottom = 0;
    std::uint64_t highest = 0;  ///< bottom that a thief may have seen together with this top
  };
  void refresh(unsigned priority);
  void publish(unsigned priority);
  void renumber(unsigned priority);
  [[nodiscard]] DequeEntry entry_at(unsigned priority, std::uint64_t number) const;
  [[nodiscard]] std::byte* at(unsigned priority, std::uint64_t number) const;

  std::span<std::byte> memory_;
  DequeLayout layout_;
  std::array<End, kPriorityClasses> ends_{};
};

/// How many of `size` entries a thief may take away.
[[nodiscard]] constexpr std::uint64_t half_of(std::uint64_t size) { return (size + 1) / 2; }

}  // namespace rockhopper::dag
