// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <unordered_map>

#include "apps/services/publisher/offered_store.h"
#include "roce/engine.h"

namespace rockhopper::publisher {

/// The keys by which subscribers read stores: one for each subscriber and store, that serves nobody
/// else and nothing else (PB-9, PB-26).
class GrantKeys {
 public:
  /// Windows are of `pd`. The engine must outlive it.
  GrantKeys(roce::Engine& engine, roce::ProtectionDomain pd) : engine_(engine), pd_(pd) {}

  /// Gives the grant a key of its own. Returns false if there is none left, or the subscriber's
  /// queue pair takes no requests.
  [[nodiscard]] bool give(ServedSubscriber& subscriber, StoreGrant& grant);
  /// From the return on no packet reads the store with the grant's key.
  void take(const ServedSubscriber& subscriber, const StoreGrant& grant);
  /// The subscriber's queue pair goes, and what waits there to be bound.
  void forget(SubscriberId subscriber);

  /// A request with this wr_id is one that give() has posted.
  [[nodiscard]] static bool is_binding(std::uint64_t wr_id) { return (wr_id & kBit) != 0; }
  /// It is complete, or has failed. Returns whose key it is.
  SubscriberId on_bound(std::uint64_t wr_id);

 private:
  /// Marks a wr_id; the key is in the lower bits.
  static constexpr std::uint64_t kBit = std::uint64_t{1} << 63;
  /// A window whose binding is on its way.
  struct Binding {
    SubscriberId subscriber{};
    bool ended = false;  ///< the grant has ended meanwhile
  };
  [[nodiscard]] bool register_for(ServedSubscriber& subscriber, StoreGrant& grant);
  void end(std::uint32_t rkey, const Binding& binding);

  roce::Engine& engine_;
  roce::ProtectionDomain pd_;
  std::unordered_map<std::uint32_t, Binding> binding_;  ///< by key
};

}  // namespace rockhopper::publisher
