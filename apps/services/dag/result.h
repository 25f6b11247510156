// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/services/dag/entry.h"
#include "apps/services/dag/record.h"
#include "apps/services/dag/status.h"

namespace rockhopper::dag {

enum class Kind : std::uint8_t {
  read,
  update,
  fetch_add,
  compare_swap,
  create,
  erase,
  lookup,
  resize,
  allocate_arena,
  write_record,
  adopt,
  release_arena,
  write_arena,
  release_group,
  ask,
};

/// Which version of a record: of the record with that incarnation, which counts from 1.
struct RecordVersion {
  std::uint64_t incarnation = 0;
  std::uint64_t version = 0;
  friend bool operator==(const RecordVersion&, const RecordVersion&) = default;
};

/// Leads to a record without a look at any map.
struct Pointer {
  std::uint16_t server = 0;
  Entry entry;
  /// By how many renewals of the lease the record was there, and one more; 0: not known. It saves a
  /// look at the record before it is changed. The client's own affair.
  std::uint64_t validated = 0;
};

/// What an operation has come to.
struct Result {
  std::uint64_t context = 0;  ///< as it was given
  Kind kind = Kind::read;
  Status status = Status::ok;
  // With `ok`, as far as it applies.
  Pointer pointer;         ///< where the record is, or the arena
  RecordVersion version;   ///< that was read, or written
  ControlWords control{};  ///< read
  /// Atomics: what the word held before. `ask`: as the application answered, whatever the status.
  std::uint64_t value = 0;
  std::span<const std::byte> data;  ///< read; during the call only
};

}  // namespace rockhopper::dag
