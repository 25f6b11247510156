// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "apps/services/publisher/message.h"
#include "apps/services/publisher/publisher.h"
#include "apps/services/publisher/store.h"
#include "dc/private_target.h"
#include "roce/owned.h"

/// What a publisher and its parts know of stores and subscribers.
namespace rockhopper::publisher {

struct ServedSubscriber;

struct OfferedStore {
  [[nodiscard]] StoreInfo info(std::uint64_t heartbeat_ns) const {
    return {.id = store->id(),
            .layout = layout_of(store->kind()),
            .name = name,
            .epoch = store->epoch(),
            .ring_bytes = store->memory().size() - sizeof(ControlBlock),
            .message_max = store->message_max(),
            .heartbeat_ns = heartbeat_ns};
  }

  std::string name;
  AnyStore* store;
  roce::OwnedRegion region;  ///< closed to peers; windows are bound to it
  // TailWatches.
  /// The subscribers that wait for another tail than this one, each once; has room for all
  /// subscribers.
  std::vector<ServedSubscriber*> watchers{};
  StoreTail watched_tail{};
};

/// That a subscriber may read a store.
struct StoreGrant {
  /// The state of the watch, of which a grant has one at most.
  enum class Watching : std::uint8_t {
    no,
    waiting,  ///< is among the store's watchers
    answer,   ///< to be answered, as soon as there is room
  };

  OfferedStore* store = nullptr;
  roce::MemoryKey rkey{};
  std::vector<std::byte> credentials;
  Watching watching = Watching::no;
};

struct ServedSubscriber {
  /// Answers that wait for room; requests beyond are dropped.
  static constexpr std::size_t kOutboxMax = 64;

  SubscriberId id{};
  std::string name;
  roce::QueuePair* qp = nullptr;           ///< null: dynamic connections
  std::uint32_t number = 0;                ///< the queue pair's
  std::unique_ptr<dc::PrivateTarget> way;  ///< dynamic connections
  std::vector<StoreGrant> grants;
  std::deque<ControlMessage> outbox;
  std::size_t answers = 0;  ///< grants with Watching::answer
  bool gone = false;

  /// Returns null if it has none for that store.
  [[nodiscard]] StoreGrant* find_grant(std::uint16_t store_id) {
    for (StoreGrant& grant : grants) {
      if (grant.store->store->id() == store_id) return &grant;
    }
    return nullptr;
  }
};

}  // namespace rockhopper::publisher
