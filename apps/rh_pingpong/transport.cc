// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/transport.h"

#include <array>
#include <cstddef>

namespace rockhopper::apps::pingpong {
namespace {

using roce::QpType;

constexpr std::array kTransports = {
    TransportInfo{"RC", QpType::rc, false, 1},
    TransportInfo{"UC", QpType::uc, false, 1},
    TransportInfo{"UD", QpType::ud, false, 1},
    TransportInfo{"SRQ", QpType::rc, true, kMaxQueuePairs},
    TransportInfo{"DC", QpType::extension_initiator, true, kMaxQueuePairs},
};

}  // namespace

const TransportInfo& info(Transport transport) {
  return kTransports[static_cast<std::size_t>(transport)];
}

}  // namespace rockhopper::apps::pingpong
