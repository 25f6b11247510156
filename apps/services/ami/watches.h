// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/services/ami/descriptor.h"

namespace rockhopper::ami {

/// Peers that an application waits for although they owe it no reply. Its thread adds and removes;
/// the adapter's looks, and asks those that are silent for a sign of life.
class Watches {
 public:
  explicit Watches(std::size_t endpoints) : of_(endpoints) {}

  void add(EndpointId id) { change(id, 1); }
  void remove(EndpointId id) { change(id, -1); }

  [[nodiscard]] bool any() const { return all_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool contains(EndpointId id) const {
    return of_[id].load(std::memory_order_relaxed) != 0;
  }

 private:
  void change(EndpointId id, int by) {
    for (std::atomic<int>* count : {&of_[id], &all_}) {
      count->store(count->load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
  }

  std::vector<std::atomic<int>> of_;
  std::atomic<int> all_{0};
};

}  // namespace rockhopper::ami
