// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "roce/recovery/loss_recovery.h"

namespace rockhopper::roce {

/// The standard's (IBTA vol. 1, 9.7.4.1.2 and 9.7.6): the responder takes requests in PSN order and
/// drops what comes too early, the requester sends everything from the oldest unacknowledged packet
/// on again. It remembers nothing, so that this is what LossRecovery does by itself.
class GoBackN final : public LossRecovery {
 public:
  using LossRecovery::LossRecovery;
};

}  // namespace rockhopper::roce
