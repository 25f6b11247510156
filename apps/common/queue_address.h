// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/common/fields.h"
#include "stack/ip_address.h"

namespace rockhopper::apps {

/// Where a queue pair or a DC target is reached, as its end tells the peer.
struct QueueAddress {
  stack::IpAddress gid;
  std::uint32_t qpn = 0;         ///< of the queue pair, or of the target
  std::uint32_t psn = 0;         ///< RC: the first
  std::uint64_t access_key = 0;  ///< DC: the target's

  void describe(Fields& fields) {
    fields.unicast("gid", gid);
    fields.number24("qpn", qpn);
    fields.number24("psn", psn);
    fields.number("access_key", access_key);
  }
};

}  // namespace rockhopper::apps
