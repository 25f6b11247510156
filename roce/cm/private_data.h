// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "roce/wire/cm.h"
#include "stack/error.h"

namespace rockhopper::roce::cm {

/// Whether the application's data fit what this kind of message has room for.
template <typename Message>
[[nodiscard]] Expected<void> check_private_data(std::span<const std::uint8_t> data) {
  if (data.size() <= Message::kPrivateBytes) return {};
  return fail(ErrorCode::invalid_argument, "a {} takes {} bytes of private data, not {}",
              wire::cm::to_string(Message::kAttribute), Message::kPrivateBytes, data.size());
}

/// Puts data that check_private_data() has passed into a message.
template <typename Message>
void set_private_data(Message& message, std::span<const std::uint8_t> data) {
  std::copy(data.begin(), data.end(), message.private_data.begin());
}

}  // namespace rockhopper::roce::cm
