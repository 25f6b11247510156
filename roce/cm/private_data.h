// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "roce/cm/capabilities.h"
#include "roce/wire/cm.h"
#include "stack/error.h"

namespace rockhopper::roce::cm {

/// Whether the application's data fit what this kind of message has room for, beside `reserved`
/// bytes.
template <typename Message>
[[nodiscard]] Expected<void> check_private_data(std::span<const std::uint8_t> data,
                                                std::size_t reserved = 0) {
  if (data.size() + reserved <= Message::kPrivateBytes) return {};
  return fail(ErrorCode::invalid_argument, "a {} takes {} bytes of private data, not {}",
              wire::cm::to_string(Message::kAttribute), Message::kPrivateBytes - reserved,
              data.size());
}

/// Puts data that check_private_data() has passed into a message.
template <typename Message>
void set_private_data(Message& message, std::span<const std::uint8_t> data) {
  std::copy(data.begin(), data.end(), message.private_data.begin());
}

/// What of the private data is the application's if `capabilities` are told behind it.
[[nodiscard]] inline std::span<const std::uint8_t> without_capabilities(
    std::span<const std::uint8_t> data, bool capabilities) {
  return data.first(data.size() - (capabilities ? CapabilityBlock::kSize : 0));
}

}  // namespace rockhopper::roce::cm
