// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "apps/common/endpoint.h"

namespace rockhopper::apps {

/// All counters of `source`, by name. It has visit_counters(), as for stack::add_counter_group().
template <typename Source>
[[nodiscard]] nlohmann::json counters_to_json(const Source& source) {
  nlohmann::json counters = nlohmann::json::object();
  source.visit_counters(
      [](void* to, const char* name, std::uint64_t value) {
        (*static_cast<nlohmann::json*>(to))[name] = value;
      },
      &counters);
  return counters;
}

/// Those of `source` that are not 0, a line each.
template <typename Source>
void print_counters(std::FILE* out, const char* group, const Source& source) {
  struct To {
    std::FILE* out;
    const char* group;
  } to{out, group};
  source.visit_counters(
      [](void* context, const char* name, std::uint64_t value) {
        const To& where = *static_cast<const To*>(context);
        print_counter(where.out, where.group, name, value);
      },
      &to);
}

}  // namespace rockhopper::apps
