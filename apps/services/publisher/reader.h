// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/services/publisher/copy_tracker.h"
#include "apps/services/publisher/log_cursor.h"
#include "apps/services/publisher/message_order.h"
#include "apps/services/publisher/read_ranges.h"
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
  void expect_copies(std::uint32_t count, std::uint32_t bytes) { copies_.expect(count, bytes); }
  /// One has come, from anybody.
  void on_copy(std::span<const std::byte> bytes, std::uint64_t now_ns);
  [[nodiscard]] const CopyCounters& copy_counters() const { return copies_.counters(); }

 private:
  // What a round READs.
  [[nodiscard]] std::uint64_t wanted_end() const;
  void request_records();
  void request_range(std::uint64_t begin, std::uint64_t end);

  // What it has brought.
  /// Returns nothing if it is none, or contradicts itself.
  [[nodiscard]] std::optional<ControlBlock> take_control();
  void take_round(const ControlBlock& control);
  [[nodiscard]] bool take_ranges(const ControlBlock& control);
  [[nodiscard]] bool take_records(std::span<const std::byte> bytes);
  [[nodiscard]] bool grow_batch(std::span<const std::byte> record);
  void take(const Record& record);

  // Where it goes on.
  void begin_at(std::uint64_t position, std::uint64_t tail_position);
  void restart(const ControlBlock& control);
  void lapped(const ControlBlock& control);
  void give_up(const ControlBlock& control);
  void note_heartbeat(const ControlBlock& control, std::uint64_t now_ns);
  void settle();
  void expect(std::uint64_t position) override;
  void plan(bool news, std::uint64_t now_ns);

  // Copies.
  void take_copy(const Record& copy);
  void take_held();

  LogCursor cursor_;
  MessageOrder order_;
  CopyTracker copies_;
  ReadRanges ranges_;                 ///< of the round
  std::uint64_t round_position_ = 0;  ///< of the cursor when the round began
  std::uint64_t tail_position_ = 0;   ///< as the last control block says
  unsigned fruitless_ = 0;            ///< rounds in a row that brought records, but no valid one
  bool given_up_ = false;             ///< has gone on at the tail, and read nothing there yet
};

}  // namespace rockhopper::publisher
