// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/pingpong/transport.h"

#include <array>

#include "roce/qp_attributes.h"

namespace rockhopper::apps::pingpong {
namespace {

using namespace roce;

constexpr std::uint32_t kInit = kQpState | kQpPkeyIndex | kQpPort;
constexpr std::uint32_t kConnectedRtr = kQpState | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn;
constexpr std::uint32_t kRts = kQpState | kQpSqPsn;
constexpr std::uint32_t kReliableRtr = kConnectedRtr | kQpMaxDestRdAtomic | kQpMinRnrTimer;
constexpr std::uint32_t kReliableRts =
    kRts | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic;

constexpr std::array kTransports = {
    TransportInfo{"RC", QpType::rc, false, 1, kInit | kQpAccessFlags, kReliableRtr, kReliableRts},
    TransportInfo{"UC", QpType::uc, false, 1, kInit | kQpAccessFlags, kConnectedRtr, kRts},
    TransportInfo{"UD", QpType::ud, false, 1, kInit | kQpQkey, kQpState, kRts},
    TransportInfo{"SRQ", QpType::rc, true, kMaxQueuePairs, kInit | kQpAccessFlags, kReliableRtr,
                  kReliableRts},
};

}  // namespace

const TransportInfo& info(Transport transport) {
  return kTransports[static_cast<std::size_t>(transport)];
}

}  // namespace rockhopper::apps::pingpong
