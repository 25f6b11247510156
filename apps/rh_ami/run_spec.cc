// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/run_spec.h"

#include <array>

#include "apps/common/names.h"

namespace rockhopper::apps::messages {
namespace {

constexpr std::array kOperations = {
    Names{"am_lat", "Active message latency"},
    Names{"am_bw", "Active messages"},
    Names{"put", "Put"},
    Names{"put_notify", "Put with notification"},
    Names{"get", "Get"},
    Names{"fetch_add", "Fetch and add"},
};
constexpr std::array kLevels = {Names{"local"}, Names{"remote"}, Names{"handled"}};

}  // namespace

std::string_view to_string(Operation operation) { return names_of(kOperations, operation).name; }

std::optional<Operation> parse_operation(std::string_view name) {
  return parse_name<Operation>(kOperations, name);
}

std::string_view title(Operation operation) { return names_of(kOperations, operation).title; }

std::string_view to_string(ami::Level level) { return names_of(kLevels, level).name; }

std::optional<ami::Level> parse_level(std::string_view name) {
  return parse_name<ami::Level>(kLevels, name);
}

}  // namespace rockhopper::apps::messages
