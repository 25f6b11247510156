// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "apps/common/names.h"
#include "apps/services/dag/graph/function_registry.h"

namespace rockhopper::apps::dag_node {

/// Lets time pass, as a task that computes does. Arguments: nanoseconds, 8 bytes, little endian.
/// What the task before it has left stays.
inline constexpr dag::FunctionId kWaitFunction{2, 1};

[[nodiscard]] std::vector<std::byte> emit_wait(std::uint64_t ns);

/// How time passes.
enum class Wait : std::uint8_t {
  sleep,  ///< the CPU is free meanwhile, so that a few CPUs carry many workers
  spin,   ///< it is not
};

constexpr auto names_of(Wait) { return std::array{Names{"sleep"}, Names{"spin"}}; }

/// All functions of rh-dag: digest and wait. A wait ends early, with an error, when `stopped` says
/// so; it is asked every few milliseconds.
[[nodiscard]] Expected<dag::FunctionRegistry> make_functions(Wait wait,
                                                             std::function<bool()> stopped);

}  // namespace rockhopper::apps::dag_node
