// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/payload.h"
#include "roce/wire/packet.h"

namespace rockhopper::roce {

/// A received packet of a queue pair: ICRC, framing, service and addresses have been checked.
struct RxPacket {
  const wire::Headers& headers;
  MbufBytes payload;
};

/// What a call to transmit did.
struct TransmitResult {
  std::uint16_t count = 0;
  bool out_of_mbufs = false;  ///< more is to be sent, but the pool is empty
};

}  // namespace rockhopper::roce
