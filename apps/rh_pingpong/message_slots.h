// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/common/page_memory.h"
#include "stack/error.h"

namespace rockhopper::apps::pingpong {

/// Places for messages: one that all share, or one each so that several can be under way.
class MessageSlots {
 public:
  MessageSlots() = default;
  [[nodiscard]] static Expected<MessageSlots> allocate(std::uint32_t count, std::uint32_t bytes);

  [[nodiscard]] std::span<std::byte> memory() const { return memory_.bytes(); }
  [[nodiscard]] std::span<std::byte> at(std::uint32_t slot) const {
    return memory_.bytes().subspan(stride_ * slot, bytes_);
  }

 private:
  PageMemory memory_;
  std::size_t stride_ = 0;
  std::uint32_t bytes_ = 0;
};

/// Which slots can be given to a receive request.
class FreeSlots {
 public:
  explicit FreeSlots(std::uint32_t count) : shared_(count == 1) {
    for (std::uint32_t slot = count; slot > 0; --slot) {
      free_.push_back(slot - 1);
    }
  }
  [[nodiscard]] bool empty() const { return free_.empty(); }
  [[nodiscard]] std::uint32_t take() {
    const std::uint32_t slot = free_.back();
    if (!shared_) free_.pop_back();
    return slot;
  }
  void release(std::uint32_t slot) {
    if (!shared_) free_.push_back(slot);
  }

 private:
  bool shared_;  ///< all receive requests have the only slot
  std::vector<std::uint32_t> free_;
};

}  // namespace rockhopper::apps::pingpong
