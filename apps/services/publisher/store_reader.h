// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/pacing.h"
#include "apps/services/publisher/reader_config.h"
#include "apps/services/publisher/store_info.h"
#include "apps/services/publisher/store_tail.h"
#include "stack/error.h"

namespace rockhopper::publisher {

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

/// What a reader tells. Called from on_round(), on_tail(), tick() and Reader::on_copy(); must not
/// destroy the reader.
class Listener {
 public:
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  virtual ~Listener() = default;
  /// In the order of their numbers, each once an epoch, only what has been checked (PB-20).
  /// Conflated: for each key in this order, and not all of them.
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
  /// READs of a round, at most.
  static constexpr std::size_t kReadsMax = 16;

  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;
  virtual ~StoreReader() = default;

  /// Where READs go: as long as the kind of reader says of the store. Before open(), and while no
  /// round is on its way.
  void set_buffer(std::span<std::byte> buffer) { buffer_ = buffer; }
  /// The READs to be posted now, in this order, so that they are executed in it; nothing if it is
  /// not time, or those of the last round are not complete. Valid until on_round() or cancel().
  [[nodiscard]] virtual std::span<const ReadRequest> next_round(std::uint64_t now_ns) = 0;
  /// All READs of the round have brought their bytes.
  virtual void on_round(std::uint64_t now_ns) = 0;
  /// The round will not complete, and its READs will write nothing any more.
  void cancel();
  /// The tail that the publisher is to be asked to watch now, in place of rounds; nothing while
  /// there is something to be read, or nothing to be asked (PB-29).
  [[nodiscard]] std::optional<StoreTail> next_watch() const;
  /// It has been asked. No round is due before on_tail(), or before the publisher seems dead.
  void on_watch();
  /// The publisher's answer: the tail as it is, or was. False: none is awaited.
  [[nodiscard]] bool on_tail(const StoreTail& tail, std::uint64_t now_ns);
  /// In place of ReaderConfig::watch, from now on.
  void set_watch(bool watch);
  /// Looks whether the publisher is alive (PB-19).
  void tick(std::uint64_t now_ns);
  /// When next_round() or tick() has something to do; stack::kNever: not before
  /// on_round() or on_tail().
  [[nodiscard]] std::uint64_t next_deadline_ns() const;
  /// While true, nothing is read; the publisher may overtake it. Its death is not looked for.
  void pause(bool paused);
  /// There is access (again) to the store that `info` describes. It goes on where it was if the
  /// epoch is the same. Fails, and nothing has changed, if that layout or size cannot be read.
  [[nodiscard]] virtual Expected<void> open(const StoreInfo& info, std::uint64_t now_ns) = 0;
  /// There is no access any more.
  void close();

  [[nodiscard]] ReaderState state() const { return state_; }
  [[nodiscard]] const ReaderCounters& counters() const { return counters_; }

 protected:
  /// `listener` must outlive it.
  StoreReader(const ReaderConfig& config, Listener& listener)
      : config_(config), listener_(listener), pacing_(config) {}

  /// From open(), when all of `info` has been found good.
  void start(const StoreInfo& info, std::uint64_t now_ns);
  /// It is time for a round.
  [[nodiscard]] bool is_due(std::uint64_t now_ns) const;
  /// One more READ of the round.
  void request(std::uint64_t offset, std::span<std::byte> to);
  /// The READs that have been requested.
  [[nodiscard]] std::span<const ReadRequest> begin_round(std::uint64_t now_ns);
  void enter(ReaderState state);
  [[nodiscard]] bool is_paused() const { return paused_; }
  /// All up to there is read.
  void rest_at(std::uint64_t position);
  /// The publisher says that there is more, up to `position` of this epoch.
  virtual void expect(std::uint64_t position) = 0;

  ReaderConfig config_;
  Listener& listener_;
  StoreInfo info_{};
  std::span<std::byte> buffer_;
  std::uint64_t epoch_ = 0;  ///< 0: of no store yet
  std::size_t request_count_ = 0;
  Pacing pacing_;
  Liveness liveness_;
  std::uint64_t heartbeat_ = 0;  ///< as last seen
  ReaderCounters counters_;

 private:
  enum class Watching : std::uint8_t {
    no,
    wanted,  ///< all is read: the publisher is to be asked
    asked,   ///< its answer is awaited
  };

  std::array<ReadRequest, kReadsMax> requests_{};
  Watching watching_ = Watching::no;
  StoreTail known_tail_;  ///< that is watched
  ReaderState state_ = ReaderState::discover;
  bool paused_ = false;
};

}  // namespace rockhopper::publisher
