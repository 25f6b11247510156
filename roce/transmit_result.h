// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::roce {

/// What a call to transmit did.
struct TransmitResult {
  std::uint16_t count = 0;
  bool out_of_mbufs = false;  ///< more is to be sent, but the pool is empty
};

}  // namespace rockhopper::roce
