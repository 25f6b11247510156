// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

#include "roce/recovery/held_packets.h"
#include "roce/recovery/retransmission_timeout.h"
#include "stack/error.h"

namespace rockhopper::roce {

/// Which packets a requester sends again, and what a responder does with those that come too early.
enum class RecoveryAlgorithm : std::uint8_t {
  /// The standard's (IBTA vol. 1, 9.7.4.1.2 and 9.7.6): everything from the oldest unacknowledged
  /// packet on is sent again; what comes too early is dropped.
  go_back_n,
  selective_repeat,  ///< see SelectiveRepeat
};
[[nodiscard]] std::string_view to_string(RecoveryAlgorithm algorithm);

struct SelectiveRepeatParameters {
  /// Request packets that may be unacknowledged, 1 to HeldPackets::kWindow; the engine's
  /// max_unacked_packets is another limit.
  std::uint32_t window = HeldPackets::kWindow;
  /// A packet is lost once one has arrived that was sent so many packets later, 1 to 255. Packets
  /// that overtake each other by less cause nothing to be sent again.
  std::uint32_t reordering = 3;
};

struct RecoveryConfig {
  RecoveryAlgorithm algorithm = RecoveryAlgorithm::go_back_n;
  bool adaptive_timeout = false;  ///< else the timer is always QpAttributes::timeout
  SelectiveRepeatParameters selective_repeat{};
  AdaptiveTimeoutParameters timeout{};
};

[[nodiscard]] Expected<void> check_recovery_config(const RecoveryConfig& config);

}  // namespace rockhopper::roce
