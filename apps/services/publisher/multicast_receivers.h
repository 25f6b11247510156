// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "apps/services/publisher/multicast_receiver.h"

namespace rockhopper::publisher {

/// The multicast groups that a subscriber is a member of: at most one receiver a group, however
/// many of its subscriptions get copies there. Belongs to the engine's thread.
class MulticastReceivers {
 public:
  /// As MulticastReceiver::create(), for each of them.
  MulticastReceivers(roce::Engine& engine, roce::ProtectionDomain pd,
                     const MulticastReceiver::Config& config, SubscriberCounters& counters)
      : engine_(engine), pd_(pd), config_(config), counters_(counters) {}

  /// Returns the group's receiver, of which it becomes a member now if it is none. It is there
  /// until leave_unused().
  [[nodiscard]] Expected<MulticastReceiver*> join(const MulticastGroup& group) {
    for (const auto& receiver : receivers_) {
      if (receiver->group() == group) return receiver.get();
    }
    ROCKHOPPER_TRY(auto receiver,
                   MulticastReceiver::create(engine_, pd_, group, config_, counters_));
    receivers_.push_back(std::move(receiver));
    return receivers_.back().get();
  }

  /// Calls `take(receiver, store_id, bytes)` for each copy that has come. Returns true if anything
  /// has come.
  template <typename Take>
  bool poll(const Take& take) {
    bool worked = false;
    for (const auto& receiver : receivers_) {
      worked = receiver->poll([&](std::uint16_t store_id, std::span<const std::byte> copy) {
        take(*receiver, store_id, copy);
      }) || worked;
    }
    return worked;
  }

  /// Leaves each group for whose receiver `is_used(receiver)` is false.
  template <typename IsUsed>
  void leave_unused(const IsUsed& is_used) {
    std::erase_if(receivers_, [&](const auto& receiver) { return !is_used(*receiver); });
  }

 private:
  roce::Engine& engine_;
  roce::ProtectionDomain pd_;
  MulticastReceiver::Config config_;
  SubscriberCounters& counters_;
  std::vector<std::unique_ptr<MulticastReceiver>> receivers_;  ///< a group each
};

}  // namespace rockhopper::publisher
