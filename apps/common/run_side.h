// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stack/error.h"

namespace rockhopper::apps {

/// Runs one end of a measurement; with `json` prints its report, unless it has failed.
template <typename Side>
Expected<void> run_side(Side side, bool json) {
  auto result = side.run();
  if (result && json) fmt::print("{}\n", side.report().dump());
  return result;
}

}  // namespace rockhopper::apps
