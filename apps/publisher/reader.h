// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "apps/publisher/counters.h"
#include "apps/publisher/record.h"
#include "apps/publisher/store_info.h"
#include "stack/error.h"

namespace rockhopper::publisher {

/// Where a reader begins (PB-32).
struct Start {
  enum class At : std::uint8_t {
    tail,      ///< with what is published from now on
    oldest,    ///< with the oldest message that is there
    sequence,  ///< with message number `value`; what of it on is there no more is told as lost
    time,      ///< with the first message whose time is `value` or later
  };
  At at = At::tail;
  std::uint64_t value = 0;  ///< a sequence number, or nanoseconds
};

struct ReaderConfig {
  Start start{};
  /// READ at a time, bytes; the longest message fits in any case.
  std::uint32_t batch_bytes = 256 * 1024;
  /// How long to wait before looking again: the first time after something new, and how far that is
  /// doubled while nothing comes, which is the latency to expect then. Not longer than a
  /// heart-beat. (PB-28)
  std::uint64_t poll_min_ns = 0;
  std::uint64_t poll_max_ns = 1'000'000;
  std::uint32_t reads_per_second = 0;  ///< at most; 0: without limit (PB-28)
};

/// States of a subscriber of a store.
enum class ReaderState : std::uint8_t {
  discover,        ///< has no access
  granted,         ///< has access, and has read nothing yet
  catchup,         ///< there is more than it has read
  live,            ///< has read all that there was
  lapped,          ///< what was next has been overwritten
  epoch_changed,   ///< the publisher has begun anew
  publisher_dead,  ///< three heart-beats are missing (PB-19)
};
[[nodiscard]] std::string_view to_string(ReaderState state);

/// A message as it is delivered. The payload is the reader's, and valid during the call.
struct Message {
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;  ///< conflated: of the store's changes
  std::uint64_t time_ns = 0;   ///< the publisher's
  std::uint64_t key = 0;       ///< conflated only
  std::uint16_t type = 0;
  std::span<const std::byte> payload;
};

/// What a reader tells. Called from on_round() and tick(); must not destroy the reader.
class Listener {
 public:
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  virtual ~Listener() = default;
  /// In the order of their numbers, each once an epoch, only what has been checked (PB-20).
  virtual void on_message(const Message& message) = 0;
  /// Exactly these were overwritten before they could be read, `last` included (PB-21). Between
  /// on_message() of those before and behind.
  virtual void on_lost(std::uint64_t first, std::uint64_t last) = 0;
  /// Numbers begin anew; nobody can say what of the old epoch was missed (PB-27).
  virtual void on_restart(std::uint64_t /*old_epoch*/, std::uint64_t /*new_epoch*/) {}
  virtual void on_state(ReaderState /*state*/) {}
};

/// A READ of a store: `to.size()` bytes from `offset` in its memory on.
struct ReadRequest {
  std::uint64_t offset = 0;
  std::span<std::byte> to;
};

/// One subscriber's side of one store: says what is to be READ, and makes messages of what comes
/// back. No I/O. Belongs to one thread.
class StoreReader {
 public:
  StoreReader() = default;
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;
  virtual ~StoreReader() = default;

  /// The READs to be posted now, in this order, so that they are executed in it; nothing if it is
  /// not time, or those of the last round are not complete. Valid until on_round() or cancel().
  [[nodiscard]] virtual std::span<const ReadRequest> next_round(std::uint64_t now_ns) = 0;
  /// All READs of the round have brought their bytes.
  virtual void on_round(std::uint64_t now_ns) = 0;
  /// The round will not complete, and its READs will write nothing any more.
  virtual void cancel() = 0;
  /// Looks whether the publisher is alive (PB-19).
  virtual void tick(std::uint64_t now_ns) = 0;
  /// When next_round() or tick() has something to do; stack::kNever: not before on_round().
  [[nodiscard]] virtual std::uint64_t next_deadline_ns() const = 0;
  /// While true, nothing is read; the publisher may overtake it. Its death is not looked for.
  virtual void pause(bool paused) = 0;
  /// There is access (again) to the store that `info` describes. It goes on where it was if the
  /// epoch is the same. Fails, and nothing has changed, if that layout or size cannot be read.
  [[nodiscard]] virtual Expected<void> open(const StoreInfo& info, std::uint64_t now_ns) = 0;
  /// There is no access any more.
  virtual void close() = 0;

  [[nodiscard]] virtual ReaderState state() const = 0;
  [[nodiscard]] virtual const ReaderCounters& counters() const = 0;
};

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

  /// Where READs go, buffer_bytes() long. Before open(), and while no round is on its way.
  void set_buffer(std::span<std::byte> buffer) { buffer_ = buffer; }

  [[nodiscard]] std::span<const ReadRequest> next_round(std::uint64_t now_ns) override;
  void on_round(std::uint64_t now_ns) override;
  void cancel() override { request_count_ = 0; }
  void tick(std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  void pause(bool paused) override;
  [[nodiscard]] Expected<void> open(const StoreInfo& info, std::uint64_t now_ns) override;
  void close() override;

  [[nodiscard]] ReaderState state() const override { return state_; }
  [[nodiscard]] const ReaderCounters& counters() const override { return counters_; }

 private:
  /// What is known of the record at position_.
  enum class Known : std::uint8_t {
    nothing,   ///< not even the position: the control block has to be read first
    position,  ///< it is the oldest or the newest, and has the number that it says
    sequence,  ///< it comes behind the last one that has been read
  };

  void request(std::uint64_t offset, std::span<std::byte> to);
  void request_records();
  /// Nothing: it is none, or contradicts itself.
  [[nodiscard]] std::optional<ControlBlock> take_control();
  void join(const ControlBlock& control);
  void restart(const ControlBlock& control);
  void lapped(const ControlBlock& control);
  void take_round(const ControlBlock& control);
  [[nodiscard]] bool take_records(std::span<const std::byte> bytes);
  void take(const Record& record);
  void count_invalid(RecordStatus status);
  void note_heartbeat(const ControlBlock& control, std::uint64_t now_ns);
  [[nodiscard]] std::uint64_t patience_ns() const;
  void settle();
  void plan_next(bool news, std::uint64_t now_ns);
  void enter(ReaderState state);

  ReaderConfig config_;
  Listener& listener_;
  StoreInfo info_{};
  std::span<std::byte> buffer_;
  ReaderState state_ = ReaderState::discover;
  bool paused_ = false;

  std::uint64_t epoch_ = 0;  ///< 0: of no store yet
  Known known_ = Known::nothing;
  std::uint64_t position_ = 0;         ///< of the next record
  std::uint64_t record_sequence_ = 0;  ///< its number, with Known::sequence
  /// The next message to be delivered, or told as lost; nothing while it is looked for.
  std::optional<std::uint64_t> next_sequence_;
  std::optional<std::uint64_t> scanned_;  ///< behind the last one that was too early
  std::uint64_t tail_position_ = 0;       ///< as the last control block says
  unsigned fruitless_ = 0;  ///< rounds in a row that brought records, but no valid one

  bool given_up_ = false;  ///< has gone on at the tail, and read nothing there yet

  std::array<ReadRequest, 3> requests_{};
  std::size_t request_count_ = 0;
  std::size_t records_bytes_ = 0;  ///< of the round's READs of records

  std::uint64_t next_round_ns_ = 0;
  std::uint64_t poll_ns_ = 0;
  std::uint64_t next_read_ns_ = 0;         ///< by reads_per_second
  std::uint64_t heartbeat_ = 0;            ///< as last seen
  std::optional<std::uint64_t> alive_ns_;  ///< when it changed; nothing: to be looked for anew
  bool dead_ = false;
  ReaderCounters counters_;
};

}  // namespace rockhopper::publisher
