// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <vector>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/offered_store.h"

namespace rockhopper::publisher {

/// Who waits for something new in a store (PB-29). Writers know nothing of it: it is the engine's
/// thread that looks at the tails of stores that are watched, at each turn.
class TailWatches {
 public:
  /// `counters` must outlive it.
  explicit TailWatches(PublisherCounters& counters) : counters_(counters) {}

  /// There are so many stores.
  void reserve(std::size_t stores) { watched_.reserve(stores); }
  /// The subscriber wants to be told when the tail is not `known` any more. A watch that it has
  /// ends, but for one that is to be answered.
  void watch(ServedSubscriber& subscriber, StoreGrant& grant, const StoreTail& known);
  /// The grant has no watch any more.
  void end(ServedSubscriber& subscriber, StoreGrant& grant);
  /// All watches are to be answered, for a sign of life.
  void answer_all();
  /// Those of stores that have another tail are to be answered. Returns false if there are none.
  bool look();
  /// Calls `send(answer)` for each that is to be answered, until one returns false. Returns false
  /// if none was sent. With the tail as it is now, so that a subscriber that is slow misses nothing
  /// by it.
  template <typename Send>
  bool send_answers(ServedSubscriber& subscriber, const Send& send);

  /// Counts those that wait.
  [[nodiscard]] std::size_t count() const;

 private:
  void answer(OfferedStore& store);

  PublisherCounters& counters_;
  std::vector<OfferedStore*> watched_;  ///< those that have watchers, each once
};

template <typename Send>
bool TailWatches::send_answers(ServedSubscriber& subscriber, const Send& send) {
  bool sent = false;
  for (StoreGrant& grant : subscriber.grants) {
    if (subscriber.answers == 0) break;
    if (grant.watching != StoreGrant::Watching::answer) continue;
    const AnyStore& store = *grant.store->store;
    if (!send(Changed{.store_id = store.id(), .tail = store.tail()})) break;
    end(subscriber, grant);
    counters_.watch_answers.add();
    sent = true;
  }
  return sent;
}

}  // namespace rockhopper::publisher
