// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/log_follower.h"
#include "apps/services/publisher/multicast_group.h"
#include "roce/engine.h"

namespace rockhopper::publisher {

struct MulticastConfig {
  stack::IpAddress group;
  stack::IpAddress source;  ///< one of the host's addresses, of the group's family
  /// The path MTU of all ways to members; records that are longer are READ only.
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint16_t pkey_index = 0;
};

/// Sends a copy of each message of its log stores to a multicast group: a UD SEND whose payload is
/// the record as it lies in the store, so that it says what is to be READ if its predecessors are
/// missing (PB-13, PB-14), and whose immediate is the store's id. Follows the stores' tails, so
/// that their writers, which may be other threads, take no notice (PB-7, PB-24). A writer that
/// overtakes it makes it skip messages, which subscribers READ. Belongs to the engine's thread.
class MulticastSender {
 public:
  /// The group's Q_Key is new, and does not tell how the next one will be. `engine` must outlive
  /// it, and it must end before `pd` does.
  [[nodiscard]] static Expected<std::unique_ptr<MulticastSender>> create(
      roce::Engine& engine, roce::ProtectionDomain pd, const MulticastConfig& config);
  MulticastSender(const MulticastSender&) = delete;
  MulticastSender& operator=(const MulticastSender&) = delete;
  ~MulticastSender();

  /// What is published there from now on. The store is a log and must outlive it here.
  void add(const AnyStore& store) { followers_.emplace_back(store); }
  /// Harmless if it is not there.
  void remove(std::uint16_t store_id);
  [[nodiscard]] bool has(std::uint16_t store_id) const;

  /// What members have to know.
  [[nodiscard]] const MulticastGroup& group() const { return group_; }
  /// One turn. True if there was something to do.
  bool progress();
  [[nodiscard]] const MulticastCounters& counters() const { return counters_; }

 private:
  explicit MulticastSender(roce::Engine& engine) : engine_(engine) {}
  [[nodiscard]] Expected<void> set_up(roce::ProtectionDomain pd, const MulticastConfig& config);
  [[nodiscard]] bool poll_sends();
  [[nodiscard]] bool send_from(LogFollower& follower);
  void post(const LogFollower& follower);
  [[nodiscard]] std::span<std::byte> slot();

  roce::Engine& engine_;
  MulticastGroup group_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::QueuePair* qp_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
  std::vector<std::byte> slots_;  ///< of copies that are on their way, each of a path MTU
  roce::MemoryKey slots_key_{};
  std::uint32_t next_slot_ = 0;
  std::uint32_t sending_ = 0;  ///< slots in use
  std::list<LogFollower> followers_;
  MulticastCounters counters_;
};

}  // namespace rockhopper::publisher
