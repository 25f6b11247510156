// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

/// A subscriber's side of a store, written after docs/publisher.md alone: nothing is shared with
/// apps/services/publisher, so that one proves the other. No verbs here.
namespace rockhopper::interop {

/// A part of a store, from its beginning.
struct StoreRange {
  std::uint64_t offset;
  std::uint32_t length;
};

/// What has become of what was read.
struct StoreTally {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t rounds = 0;
  std::uint64_t lapped = 0;   ///< times that the publisher had overtaken this reader
  std::uint64_t refused = 0;  ///< records and control blocks that were not what they must be
  std::vector<std::pair<std::uint64_t, std::uint64_t>> lost;  ///< first and last
};

/// Reads a log store from message 0 on. Failures throw Failure (rc_exchange.h).
class StoreReading {
 public:
  static constexpr std::uint32_t kControlBytes = 64;

  /// As granted.
  struct Store {
    std::uint16_t id = 0;
    std::uint16_t layout = 0;
    std::uint32_t message_max = 0;
    std::uint64_t epoch = 0;
    std::uint64_t ring_bytes = 0;
  };
  using Deliver = std::function<void(std::uint64_t sequence, std::span<const std::byte> payload)>;
  /// Refuses a store of another layout.
  StoreReading(const Store& store, Deliver deliver);

  /// A READ buffer needs so much at least, for one message.
  [[nodiscard]] std::uint64_t longest_record() const;
  /// What is to be read next, in this order, the control block behind it: up to two ranges, of
  /// `limit` bytes together.
  [[nodiscard]] std::vector<StoreRange> next(std::uint32_t limit) const;
  /// What has been read: the ranges, behind each other, and the control block. True: there was
  /// something new.
  bool take(std::span<const std::byte> records, std::span<const std::byte> control);
  /// All is read that the last control block speaks of.
  [[nodiscard]] bool is_at_tail() const { return begun_ && position_ == tail_; }
  /// Whatever is missing up to the tail is lost.
  void finish();
  [[nodiscard]] const StoreTally& tally() const { return tally_; }

 private:
  /// Bytes up to the next record; 0: there is none here.
  [[nodiscard]] std::uint64_t take_record(std::span<const std::byte> bytes);
  void lose_up_to(std::uint64_t sequence);

  Store store_;
  Deliver deliver_;
  StoreTally tally_;
  bool begun_ = false;           ///< a control block has been read
  bool sequence_known_ = false;  ///< the record at position_ must have next_ as its number
  std::uint64_t position_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t tail_sequence_ = 0;
};

}  // namespace rockhopper::interop
