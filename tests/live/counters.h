// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "apps/common/dc_endpoint.h"

namespace rockhopper::live {

/// All its counters, by name.
[[nodiscard]] inline nlohmann::json to_json(const apps::DcEndpoint& endpoint) {
  nlohmann::json counters = nlohmann::json::object();
  endpoint->visit_counters(
      [](void* to, const char* name, std::uint64_t value) {
        (*static_cast<nlohmann::json*>(to))[name] = value;
      },
      &counters);
  return counters;
}

}  // namespace rockhopper::live
