// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "apps/common/names.h"
#include "roce/types.h"

namespace rockhopper::apps::pingpong {

/// Which of the stock tools: ibv_rc_pingpong, ibv_uc_pingpong, ... Or, between two of us, dynamic
/// connections.
enum class Transport : std::uint8_t { rc, uc, ud, srq, dc };

constexpr auto names_of(Transport) {
  return std::array{Names{"rc", "RC"}, Names{"uc", "UC"}, Names{"ud", "UD"}, Names{"srq", "SRQ"},
                    Names{"dc", "DC"}};
}

/// The most queue pairs of ibv_srq_pingpong, and our targets.
inline constexpr std::uint32_t kMaxQueuePairs = 256;

/// What a tool's queue pairs are. With DC, each is a target of either end.
struct TransportInfo {
  roce::QpType qp_type;
  bool shares_receives;        ///< several queue pairs, one SRQ
  std::uint32_t destinations;  ///< that each end tells the other, however many queue pairs it has
};

[[nodiscard]] constexpr TransportInfo info(Transport transport) {
  constexpr std::array kAll = {
      TransportInfo{roce::QpType::rc, false, 1},
      TransportInfo{roce::QpType::uc, false, 1},
      TransportInfo{roce::QpType::ud, false, 1},
      TransportInfo{roce::QpType::rc, true, kMaxQueuePairs},
      TransportInfo{roce::QpType::extension_initiator, true, kMaxQueuePairs},
  };
  return kAll[static_cast<std::size_t>(transport)];
}

}  // namespace rockhopper::apps::pingpong
