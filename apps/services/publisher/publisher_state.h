// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "apps/services/publisher/publisher.h"
#include "dc/private_target.h"

namespace rockhopper::publisher {

struct Publisher::OfferedStore {
  std::string name;
  AnyStore* store;
  roce::MemoryRegion region;  ///< closed to peers; windows are bound to it
  /// The subscribers that wait for another tail than this one, each once; has room for all
  /// subscribers.
  std::vector<Subscriber*> watchers{};
  StoreTail watched_tail{};
};

struct Publisher::Grant {
  /// The state of the watch, of which a grant has one at most.
  enum class Watching : std::uint8_t {
    no,
    waiting,  ///< is among the store's watchers
    answer,   ///< to be answered, as soon as there is room
  };

  std::uint16_t store_id = 0;
  roce::MemoryKey rkey{};
  std::vector<std::byte> credentials;
  Watching watching = Watching::no;
};

struct Publisher::Subscriber {
  /// Answers that wait for room; requests beyond are dropped.
  static constexpr std::size_t kOutboxMax = 64;

  SubscriberId id{};
  std::string name;
  roce::QueuePair* qp = nullptr;           ///< null: dynamic connections
  std::uint32_t number = 0;                ///< the queue pair's
  std::unique_ptr<dc::PrivateTarget> way;  ///< dynamic connections
  std::vector<Grant> grants;
  std::deque<ControlMessage> outbox;
  std::size_t answers = 0;  ///< grants with Watching::answer
  bool gone = false;

  /// grants.size(): it has none for that store.
  [[nodiscard]] std::size_t find_grant(std::uint16_t store_id) const {
    std::size_t index = 0;
    while (index < grants.size() && grants[index].store_id != store_id) ++index;
    return index;
  }
};

}  // namespace rockhopper::publisher
