// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/address_vector.h"
#include "roce/wire/qpn.h"

namespace rockhopper::dc {

/// Where a DC target is, and what proves that one may use it: what its owner hands to the
/// initiators that shall reach it.
struct TargetAddress {
  roce::AddressVector av;  ///< from an initiator that reaches it
  wire::Qpn number;
  std::uint64_t access_key = 0;
};

}  // namespace rockhopper::dc
