// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rockhopper::sim {

/// What scopes have done to one piece of memory that a lock guards, and whether that can have been
/// one after the other, in the order of their fencing tokens (LK-12, LK-30).
class ScopeHistory {
 public:
  struct Access {
    bool writes = false;
    std::uint32_t offset = 0;
    std::vector<std::uint8_t> bytes;  ///< written, or read
  };
  struct Scope {
    std::uint64_t token = 0;
    std::vector<Access> accesses;  ///< in their order
  };

  void add(Scope scope) { scopes_.push_back(std::move(scope)); }
  /// From `memory` as it was before the first to `end`. Empty, or what does not fit.
  [[nodiscard]] std::string check(std::vector<std::uint8_t> memory,
                                  std::span<const std::uint8_t> end);

 private:
  std::vector<Scope> scopes_;
};

}  // namespace rockhopper::sim
