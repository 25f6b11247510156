// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/recovery/loss_recovery.h"

#include "roce/name_table.h"
#include "roce/recovery/go_back_n.h"
#include "roce/recovery/selective_repeat.h"

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

LossRecovery::LossRecovery(const RecoveryConfig& config) : config_(config) {
  if (config.adaptive_timeout) {
    timeout_ = std::make_unique<RetransmissionTimeout>(config.timeout);
  }
}

LossRecovery::~LossRecovery() = default;

void LossRecovery::reset() {
  if (timeout_ != nullptr) timeout_->reset();
}

std::unique_ptr<LossRecovery> make_loss_recovery(const RecoveryConfig& config,
                                                 HeldPacketBudget& budget) {
  switch (config.algorithm) {
    case RecoveryAlgorithm::go_back_n:
      return config.adaptive_timeout ? std::make_unique<GoBackN>(config) : nullptr;
    case RecoveryAlgorithm::selective_repeat:
      return std::make_unique<SelectiveRepeat>(config, budget);
  }
  return nullptr;
}

}  // namespace rockhopper::roce
