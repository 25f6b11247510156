// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "apps/services/dag/operation.h"

namespace rockhopper::dag {

/// Replaces the data of a record (DG-19): locks it, fills the slot that is not active, swings the
/// word, and unlocks it. Lives for one call.
class Operation::Updating {
 public:
  explicit Updating(Operation& operation) : operation_(operation), client_(operation.client_) {}

  /// Before the record is looked for. The data is copied; there is room for it (fits).
  void prepare(std::span<const std::byte> data, const std::optional<RecordVersion>& expected);
  /// There is room for data of so many bytes in a buffer of `buffer_bytes`, with a head behind it.
  [[nodiscard]] static bool fits(std::size_t bytes, std::size_t buffer_bytes);

  /// The record has been found.
  void on_found(const RecordHeader& header);
  void on_locked();
  void on_swung();
  void on_unlocked();

 private:
  [[nodiscard]] bool fits_entry(const RecordHeader& header) const;
  void add_compare_swap(unsigned result, std::size_t member, std::uint64_t compare,
                        std::uint64_t swap);
  void lock();
  void swing();
  void unlock(const Result& result);
  void on_overtaken();
  void try_later();

  Operation& operation_;
  ClientParts& client_;
};

}  // namespace rockhopper::dag
