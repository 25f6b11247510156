// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "stack/memif_message.h"

namespace rockhopper::stack::memif {

/// What a client offers from its init to its connect, checked before any of it reaches DPDK's
/// driver, which maps regions and follows offsets as it is told. What it holds grows with what the
/// client sends up to kRegionsMax regions and a ring for each queue.
class Offer {
 public:
  struct Part {
    Message message;
    Descriptor attached{};
  };

  /// `queues`: rings in each direction; the driver uses those of an earlier peer for a queue that
  /// gets none.
  explicit Offer(std::uint16_t queues) : queues_(queues) {}

  /// The reason why the message is refused; null if it is good.
  [[nodiscard]] const char* take(const Message& message, Descriptor attached);
  /// connect has come.
  [[nodiscard]] bool complete() const { return complete_; }
  /// In the order in which they came.
  [[nodiscard]] std::vector<Part>& parts() { return parts_; }

 private:
  [[nodiscard]] const char* add_region(const AddRegion& region, int fd);
  [[nodiscard]] const char* add_ring(const AddRing& ring, int fd);
  [[nodiscard]] const char* connect() const;

  struct Region {
    int fd;
    std::uint64_t size;
  };
  std::uint16_t queues_;
  std::vector<Part> parts_;
  std::vector<Region> regions_;
  std::vector<AddRing> rings_;
  std::array<std::uint16_t, 2> rings_to_{};  ///< client, server
  bool complete_ = false;
};

}  // namespace rockhopper::stack::memif
