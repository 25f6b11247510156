// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/message_slots.h"

namespace rockhopper::apps::pingpong {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kMaxBytes = std::size_t{1} << 34;

}  // namespace

Expected<MessageSlots> MessageSlots::allocate(std::uint32_t count, std::uint32_t bytes) {
  MessageSlots slots;
  slots.bytes_ = bytes;
  slots.stride_ = (std::size_t{bytes} + kCacheLine - 1) / kCacheLine * kCacheLine;
  if (slots.stride_ * count > kMaxBytes) {
    return fail(ErrorCode::invalid_argument,
                "{} messages of {} bytes: give a smaller --rx-depth or --size", count, bytes);
  }
  ROCKHOPPER_TRY(slots.memory_, PageMemory::allocate(slots.stride_ * (count - 1) + bytes));
  return slots;
}

}  // namespace rockhopper::apps::pingpong
