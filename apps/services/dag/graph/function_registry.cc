// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/function_registry.h"

#include <utility>

#include <fmt/format.h>

namespace rockhopper::dag {

Expected<void> FunctionRegistry::add(FunctionId id, std::string name, TaskFunction function) {
  for (auto at = entries_.lower_bound({id.number, 0});
       at != entries_.end() && at->first.number == id.number; ++at) {
    if (at->second.name != name) {
      return fail(ErrorCode::invalid_argument, "function {} is {} already, and cannot be {}",
                  id.number, key_text(at->second.name), key_text(name));
    }
  }
  if (entries_.contains(id)) {
    return fail(ErrorCode::invalid_argument, "function {} ({}) version {} is registered already",
                id.number, key_text(name), id.version);
  }
  entries_.emplace(id, Entry{std::move(name), std::move(function)});
  return {};
}

Expected<void> FunctionRegistry::add_known(FunctionId id, std::string name) {
  return add(id, std::move(name), {});
}

const FunctionRegistry::Entry* FunctionRegistry::find(FunctionId id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

Expected<void> FunctionRegistry::check(FunctionId id) const {
  if (entries_.contains(id)) return {};
  std::string versions;
  std::string name;
  for (auto at = entries_.lower_bound({id.number, 0});
       at != entries_.end() && at->first.number == id.number; ++at) {
    versions += fmt::format("{}{}", versions.empty() ? "" : ", ", at->first.version);
    name = at->second.name;
  }
  if (versions.empty()) return fail(ErrorCode::not_found, "function {} is not known", id.number);
  return fail(ErrorCode::not_found, "function {} ({}) has no version {}; known: {}", id.number,
              key_text(name), id.version, versions);
}

}  // namespace rockhopper::dag
