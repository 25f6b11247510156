// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "roce/lock/lock_table.h"
#include "roce/lock/snapshot_pool.h"
#include "roce/recovery/held_packets.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce::lock {

struct ServiceConfig {
  /// Scopes of different connections whose packets wait at a time; further ones get an RNR NAK.
  std::uint32_t max_parked_scopes = 1024;
  std::size_t snapshot_bytes = 4u << 20;      ///< for READs of all scopes together
  std::uint32_t max_scope_reads = 64u << 10;  ///< bytes that the READs of one scope may have
};

/// What an engine needs beside its queue pairs to execute locks; it has it from the first queue
/// pair or region of locks on.
class Service {
 public:
  /// All outlive it.
  Service(const ServiceConfig& config, stack::TimingWheel& timers, const std::uint64_t& now_ns,
          HeldPacketBudget& budget)
      : table(timers, now_ns),
        snapshots(config.snapshot_bytes),
        config_(config),
        timers_(timers),
        now_ns_(now_ns),
        budget_(budget) {}

  LockTable table;
  SnapshotPool snapshots;

  [[nodiscard]] const ServiceConfig& config() const { return config_; }
  [[nodiscard]] stack::TimingWheel& timers() const { return timers_; }
  /// The time of the engine's call under way.
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }

  /// Room for a queue pair that serves locks; what one that is gone has left is used again. Control
  /// path.
  void add_queue_pair() {
    table.add_waiter();
    if (places_.size() < std::min(++queue_pairs_, config_.max_parked_scopes)) {
      places_.push_back(std::make_unique<HeldPackets>(budget_));
      free_.reserve(places_.size());
      free_.push_back(places_.back().get());
    }
  }
  /// Gives back the room of a queue pair that waits for no lock any more.
  void remove_queue_pair() {
    table.remove_waiter();
    --queue_pairs_;
  }
  /// Places that there are: one for each of the most queue pairs that there have been at a time, up
  /// to the limit.
  [[nodiscard]] std::size_t places() const { return places_.size(); }
  /// A place for packets that wait, empty; null: all are taken.
  [[nodiscard]] HeldPackets* take_place() {
    if (free_.empty()) return nullptr;
    HeldPackets* place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(HeldPackets* place) {
    place->clear();
    free_.push_back(place);
  }

 private:
  ServiceConfig config_;
  stack::TimingWheel& timers_;
  const std::uint64_t& now_ns_;
  HeldPacketBudget& budget_;
  std::uint32_t queue_pairs_ = 0;
  std::vector<std::unique_ptr<HeldPackets>> places_;
  std::vector<HeldPackets*> free_;
};

}  // namespace rockhopper::roce::lock
