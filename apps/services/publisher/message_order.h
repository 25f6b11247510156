// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/reader_config.h"
#include "apps/services/publisher/record.h"
#include "apps/services/publisher/store_reader.h"

namespace rockhopper::publisher {

/// Delivers messages in the order of their numbers, each once, from where a reader is to begin on
/// (PB-32), and tells exactly which are lost between (PB-21).
class MessageOrder {
 public:
  /// Both must outlive it.
  MessageOrder(const Start& start, Listener& listener, ReaderCounters& counters)
      : start_(start), listener_(listener), counters_(counters) {
    if (start.at == Start::At::sequence) next_ = start.value;
  }

  /// Nothing that is there now is wanted.
  [[nodiscard]] bool begins_at_tail() const { return start_.at == Start::At::tail; }

  /// Numbers begin anew, and what there is has not been seen.
  void restart() {
    start_ = {.at = Start::At::oldest};
    next_.reset();
    scanned_.reset();
  }
  /// The next record of the log that has been read, of that epoch; those between it and the one
  /// before are lost.
  void take(const Record& record, std::uint64_t epoch);

 private:
  [[nodiscard]] bool is_early(const Record& record) const {
    return start_.at == Start::At::time && record.time_ns < start_.value;
  }

  Start start_;
  Listener& listener_;
  ReaderCounters& counters_;
  /// The next message to be delivered, or told as lost; nothing while it is looked for.
  std::optional<std::uint64_t> next_;
  std::optional<std::uint64_t> scanned_;  ///< behind the last one that was too early
};

inline void MessageOrder::take(const Record& record, std::uint64_t epoch) {
  if (!next_) {
    if (is_early(record)) {
      counters_.skipped.add();
      scanned_ = record.sequence + 1;
      return;
    }
    // What was overwritten between the last one that was too early and this one may be lost.
    next_ = scanned_.value_or(record.sequence);
  }
  if (record.sequence < *next_) return counters_.skipped.add();
  if (record.sequence > *next_) {
    counters_.lost.add(record.sequence - *next_);
    listener_.on_lost(*next_, record.sequence - 1);
  }
  next_ = record.sequence + 1;
  counters_.messages.add();
  counters_.message_bytes.add(record.payload.size());
  listener_.on_message({.epoch = epoch,
                        .sequence = record.sequence,
                        .time_ns = record.time_ns,
                        .type = record.type,
                        .payload = record.payload});
}

}  // namespace rockhopper::publisher
