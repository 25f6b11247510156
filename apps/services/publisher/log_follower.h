// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/services/publisher/record.h"
#include "apps/services/publisher/store.h"

namespace rockhopper::publisher {

/// Goes behind the tail of a log store in this process's memory, and copies its records as they
/// lie there. The store's writer may be another thread and takes no notice: what is copied is
/// checked as a READ's bytes are (PB-7, PB-20). Belongs to one thread.
class LogFollower {
 public:
  /// What next() has met.
  enum class Step : std::uint8_t {
    nothing,    ///< there is nothing behind what has been seen
    record,     ///< one has been copied
    too_long,   ///< one has been passed by, as it has no room
    overtaken,  ///< the writer has overwritten what was next; goes on with the oldest record
    damaged,    ///< what was next is no record; goes on at the tail
  };

  /// Begins with what is published from now on. The store must outlive it, and be a log.
  explicit LogFollower(const AnyStore& store);

  /// Copies the next record to the beginning of `room`.
  [[nodiscard]] Step next(std::span<std::byte> room);

  /// After Step::record: its bytes in `room`.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Messages that have been passed by since the last call: overwritten, or not to be found.
  [[nodiscard]] std::uint64_t take_skipped();
  [[nodiscard]] std::uint16_t store_id() const { return store_id_; }

 private:
  [[nodiscard]] std::uint64_t head_position() const;
  [[nodiscard]] std::uint64_t tail_position() const;
  [[nodiscard]] Step resume(std::uint64_t tail_position);
  void pass(std::uint64_t size, std::uint64_t next_sequence);

  std::span<std::byte> memory_;
  std::span<std::byte> ring_;
  std::uint16_t store_id_;
  std::uint32_t epoch_;
  std::uint32_t message_max_;
  std::uint64_t position_ = 0;
  std::optional<std::uint64_t> sequence_;       ///< of the record at position_
  std::optional<std::uint64_t> next_sequence_;  ///< of the first message that has not been seen
  std::size_t size_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace rockhopper::publisher
