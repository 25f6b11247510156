// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "apps/services/ami/descriptor.h"

namespace rockhopper::apps::messages {

/// What is measured.
enum class Operation : std::uint8_t {
  am_lat,  ///< active messages one at a time, there and back; half of that
  am_bw,   ///< active messages, a window of them on their way; so are the others
  put,
  put_notify,
  get,
  fetch_add,
};

/// The name that options and JSON use.
[[nodiscard]] std::string_view to_string(Operation operation);
[[nodiscard]] std::optional<Operation> parse_operation(std::string_view name);
/// The name that tables use.
[[nodiscard]] std::string_view title(Operation operation);

[[nodiscard]] std::string_view to_string(ami::Level level);
[[nodiscard]] std::optional<ami::Level> parse_level(std::string_view name);

/// One run, as both ends know it.
struct RunSpec {
  Operation operation = Operation::am_bw;
  std::uint32_t size = 8;         ///< bytes of a payload; 8 for fetch_add
  std::uint64_t iterations = 0;   ///< 0: by time
  std::uint64_t duration_ns = 0;  ///< of the measured part
  std::uint64_t warmup = 0;       ///< instructions before it
  std::uint64_t seed = 0;         ///< of the test data, and of who has a callback
};

}  // namespace rockhopper::apps::messages
