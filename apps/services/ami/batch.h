// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <span>

#include "apps/services/ami/message.h"
#include "roce/qp_attributes.h"

namespace rockhopper::ami {

/// Messages to one peer that go in one SEND, so that many small ones cost little more than one.
class Batch {
 public:
  /// The most bytes of a SEND, which are copied when it is posted.
  static constexpr std::size_t kMaxBytes = roce::kMaxInlineBytes;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.data(), used_}; }

  /// A message of `length` bytes finds room, where the receiver takes `limit`.
  [[nodiscard]] bool has_room(std::size_t length, std::size_t limit) const {
    const std::size_t most = limit < kMaxBytes ? limit : kMaxBytes;
    return count_ < Messages::kMost && Messages::next_place(used_) + length <= most;
  }

  /// `behind` follows the header, and is as long as that says.
  void add(const MessageHeader& header, std::span<const std::byte> behind) {
    assert(MessageHeader::kSize + behind.size() == header.size());
    const std::size_t place = Messages::next_place(used_);
    std::fill(bytes_.begin() + used_, bytes_.begin() + place, std::byte{});
    header.emit(
        std::span<std::byte, MessageHeader::kSize>(bytes_.data() + place, MessageHeader::kSize));
    std::copy(behind.begin(), behind.end(), bytes_.begin() + place + MessageHeader::kSize);
    used_ = place + MessageHeader::kSize + behind.size();
    ++count_;
  }

  void clear() { used_ = count_ = 0; }

 private:
  std::size_t used_ = 0;
  std::size_t count_ = 0;
  std::array<std::byte, kMaxBytes> bytes_;
};

}  // namespace rockhopper::ami
