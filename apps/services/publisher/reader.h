// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/services/publisher/held_copies.h"
#include "apps/services/publisher/record.h"
#include "apps/services/publisher/store_reader.h"

namespace rockhopper::publisher {

/// Reads a log store (PB-4 to PB-6, PB-20 to PB-23): the control block, then all records up to the
/// tail in one READ, or two where the ring ends, and behind them the control block again, which
/// says what of these may have been overwritten meanwhile, and what is new.
///
/// Copies of records may come besides (PB-13): what is next is delivered at once, what comes before
/// its turn is held, and what lies between is READ (PB-14 to PB-17). Nothing is believed of a copy
/// but what a READ would be believed, and what lies ahead is to be READ before it is given up.
class Reader final : public StoreReader {
 public:
  /// A READ's buffer of a reader of such a store, bytes; both for `buffer` below.
  [[nodiscard]] static std::uint64_t buffer_bytes(const StoreInfo& info,
                                                  const ReaderConfig& config);

  /// `listener` must outlive it.
  Reader(const ReaderConfig& config, Listener& listener);

  [[nodiscard]] std::span<const ReadRequest> next_round(std::uint64_t now_ns) override;
  void on_round(std::uint64_t now_ns) override;
  [[nodiscard]] Expected<void> open(const StoreInfo& info, std::uint64_t now_ns) override;

  /// Copies come from now on, up to `bytes` long; so many can wait for their turn. 0: none come any
  /// more. Allocates.
  void expect_copies(std::uint32_t count, std::uint32_t bytes);
  /// One has come, from anybody.
  void on_copy(std::span<const std::byte> bytes, std::uint64_t now_ns);
  [[nodiscard]] const CopyCounters& copy_counters() const { return copy_counters_; }

 private:
  /// What is known of the record at position_.
  enum class Known : std::uint8_t {
    nothing,   ///< not even the position: the control block has to be read first
    position,  ///< it is the oldest or the newest, and has the number that it says
    sequence,  ///< it comes behind the last one that has been read
  };

  /// What is READ in one piece, but for the ring's end.
  struct Range {
    std::uint64_t position = 0;
    std::uint64_t bytes = 0;
    std::size_t at = 0;  ///< in what the round READs of records
  };
  /// One of them may go around the ring's end, and the control block is READ besides.
  static constexpr std::size_t kRangesMax = kReadsMax - 2;

  void request_records();
  void request_range(std::uint64_t begin, std::uint64_t end);
  /// Returns nothing if it is none, or contradicts itself.
  [[nodiscard]] std::optional<ControlBlock> take_control();
  void begin_at(std::uint64_t position, std::uint64_t tail_position);
  void restart(const ControlBlock& control);
  void lapped(const ControlBlock& control);
  void take_round(const ControlBlock& control);
  [[nodiscard]] bool take_ranges(const ControlBlock& control);
  void give_up(const ControlBlock& control);
  [[nodiscard]] bool take_records(std::span<const std::byte> bytes);
  void advance(const Record& record);
  [[nodiscard]] bool grow_batch(std::span<const std::byte> record);
  void take(const Record& record);
  void count_invalid(RecordStatus status);
  void note_heartbeat(const ControlBlock& control, std::uint64_t now_ns);
  void settle();
  void expect(std::uint64_t position) override;
  void plan(bool news, std::uint64_t now_ns);

  // Copies; reader_copies.cc.
  [[nodiscard]] std::uint64_t wanted_end() const;
  [[nodiscard]] bool is_gap() const;
  [[nodiscard]] bool is_plausible(const Record& copy) const;
  [[nodiscard]] bool is_next(const Record& copy) const;
  void hold(const Record& copy, std::span<const std::byte> bytes, std::uint64_t now_ns);
  void miss(std::uint64_t now_ns);
  void take_copy(const Record& copy);
  void take_held();
  void take_held_before(std::uint64_t position);
  void note_read(const Record& record);
  void begin_repair();
  void request_gaps();
  void judge_copies(const ControlBlock& control);
  void forget_copies();
  void count_invalid_copy(RecordStatus status);

  Known known_ = Known::nothing;
  std::uint64_t position_ = 0;         ///< of the next record
  std::uint64_t record_sequence_ = 0;  ///< its number, with Known::sequence
  /// The next message to be delivered, or told as lost; nothing while it is looked for.
  std::optional<std::uint64_t> next_sequence_;
  std::optional<std::uint64_t> scanned_;  ///< behind the last one that was too early
  std::uint64_t tail_position_ = 0;       ///< as the last control block says
  unsigned fruitless_ = 0;  ///< rounds in a row that brought records, but no valid one

  bool given_up_ = false;  ///< has gone on at the tail, and read nothing there yet

  std::uint64_t batch_bytes_ = 0;  ///< of a round's records at most
  std::size_t records_bytes_ = 0;  ///< of the round's READs of records
  std::array<Range, kRangesMax> ranges_{};
  std::size_t range_count_ = 0;
  std::uint64_t round_position_ = 0;  ///< position_ when the round began
  std::uint64_t round_ = 0;           ///< how many have begun

  HeldCopies held_;
  /// A copy was dropped: what it was of is to be READ, as soon as it is known how far that goes.
  bool missed_ = false;
  bool round_missed_ = false;     ///< likewise, when the round began
  std::uint64_t missed_end_ = 0;  ///< so far that goes
  bool repairing_ = false;        ///< the round is for what copies have not brought
  /// Copies bring what is new, so that the store itself is looked at with each heart-beat only.
  bool copies_come_ = false;
  std::uint64_t good_copies_ = 0;
  std::uint64_t good_before_ = 0;  ///< when the round began
  /// They may still bring what the last control block has told of.
  bool awaits_copies_ = false;
  CopyCounters copy_counters_;
};

}  // namespace rockhopper::publisher
