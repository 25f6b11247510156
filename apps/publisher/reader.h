// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/publisher/record.h"
#include "apps/publisher/store_reader.h"

namespace rockhopper::publisher {

/// Reads a log store (PB-4 to PB-6, PB-20 to PB-23): the control block, then all records up to the
/// tail in one READ, or two where the ring ends, and behind them the control block again, which
/// says what of these may have been overwritten meanwhile, and what is new.
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

 private:
  /// What is known of the record at position_.
  enum class Known : std::uint8_t {
    nothing,   ///< not even the position: the control block has to be read first
    position,  ///< it is the oldest or the newest, and has the number that it says
    sequence,  ///< it comes behind the last one that has been read
  };

  void request_records();
  /// Nothing: it is none, or contradicts itself.
  [[nodiscard]] std::optional<ControlBlock> take_control();
  void begin_at(std::uint64_t position, std::uint64_t tail_position);
  void restart(const ControlBlock& control);
  void lapped(const ControlBlock& control);
  void take_round(const ControlBlock& control);
  [[nodiscard]] bool take_records(std::span<const std::byte> bytes);
  [[nodiscard]] bool grow_batch(std::span<const std::byte> record);
  void take(const Record& record);
  void count_invalid(RecordStatus status);
  void note_heartbeat(const ControlBlock& control, std::uint64_t now_ns);
  void settle();

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
};

}  // namespace rockhopper::publisher
