// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/recovery/recovery_config.h"

#include <array>

#include "roce/name_table.h"

namespace rockhopper::roce {

std::string_view to_string(RecoveryAlgorithm algorithm) {
  return name_of(algorithm, std::array<std::string_view, 2>{"go-back-n", "selective"});
}

Expected<void> check_recovery_config(const RecoveryConfig& config) {
  const SelectiveRepeatParameters& selective = config.selective_repeat;
  if (selective.window == 0 || selective.window > HeldPackets::kWindow ||
      selective.reordering == 0 || selective.reordering >= HeldPackets::kWindow) {
    return fail(ErrorCode::invalid_argument,
                "selective repeat: the window is 1 to {} packets and the reordering 1 to {}",
                HeldPackets::kWindow, HeldPackets::kWindow - 1);
  }
  if (config.timeout.min_ns == 0) {
    return fail(ErrorCode::invalid_argument, "the adaptive timeout's minimum is above 0");
  }
  return {};
}

}  // namespace rockhopper::roce
