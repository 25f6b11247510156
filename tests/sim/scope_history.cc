// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/scope_history.h"

#include <algorithm>

#include <fmt/format.h>

namespace rockhopper::sim {

std::string ScopeHistory::check(std::vector<std::uint8_t> memory,
                                std::span<const std::uint8_t> end) {
  std::ranges::sort(scopes_, {}, &Scope::token);
  for (const Scope& scope : scopes_) {
    for (const Access& access : scope.accesses) {
      const std::span part = std::span(memory).subspan(access.offset, access.bytes.size());
      if (access.writes) {
        std::ranges::copy(access.bytes, part.begin());
      } else if (!std::ranges::equal(access.bytes, part)) {
        return fmt::format("the holder of token {} has read at {} what was not there", scope.token,
                           access.offset);
      }
    }
  }
  return std::ranges::equal(memory, end) ? "" : "memory is not what the last holders have written";
}

}  // namespace rockhopper::sim
