// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/types.h"

namespace rockhopper::apps::pingpong {

/// Which of the stock tools: ibv_rc_pingpong, ibv_uc_pingpong, ... Or, between two of us, dynamic
/// connections.
enum class Transport : std::uint8_t { rc, uc, ud, srq, dc };

/// What a tool's queue pairs are. With DC, each is a target of either end.
struct TransportInfo {
  const char* name;
  roce::QpType qp_type;
  bool shares_receives;        ///< several queue pairs, one SRQ
  std::uint32_t destinations;  ///< that each end tells the other, however many queue pairs it has
};

[[nodiscard]] const TransportInfo& info(Transport transport);

/// The most queue pairs of ibv_srq_pingpong, and our targets.
inline constexpr std::uint32_t kMaxQueuePairs = 256;

}  // namespace rockhopper::apps::pingpong
