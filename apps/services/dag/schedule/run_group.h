// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "apps/services/dag/schedule/board.h"
#include "apps/services/dag/schedule/node_record.h"

namespace rockhopper::dag {

/// The group of all arenas that outputs of a run are in, at any server: the run's name, 0, its id.
/// With the id, as a later run may have the name while they are released.
class RunGroup {
 public:
  /// A longer name than kRunNameMax is cut.
  RunGroup(std::string_view run, RunId id) {
    const std::size_t length = std::min(run.size(), kRunNameMax);
    std::copy_n(std::as_bytes(std::span(run)).begin(), length, bytes_.begin());
    const auto number = std::bit_cast<std::array<std::byte, sizeof(RunId)>>(id);
    std::copy(number.begin(), number.end(),
              bytes_.begin() + static_cast<std::ptrdiff_t>(length + 1));
    size_ = length + 1 + number.size();
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(bytes_).first(size_); }

 private:
  std::array<std::byte, kRunNameMax + 1 + sizeof(RunId)> bytes_{};
  std::size_t size_ = 0;
};

}  // namespace rockhopper::dag
