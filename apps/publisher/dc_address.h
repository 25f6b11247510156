// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/address_vector.h"
#include "roce/wire/qpn.h"

namespace rockhopper::publisher {

/// Where the other side is reached by dynamic connections.
struct DcAddress {
  roce::AddressVector av;
  wire::Qpn target;
  std::uint64_t access_key = 0;
};

}  // namespace rockhopper::publisher
