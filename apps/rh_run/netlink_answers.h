// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <vector>

#include "apps/verbs/abi/devices.h"
#include "stack/kernel_addresses.h"

namespace rockhopper::apps::launcher {

/// What the kernel would answer a program that asks it by netlink for the devices and their ports,
/// as `rdma` of iproute2 does: messages of NETLINK_RDMA as <rdma/rdma_netlink.h> has them, one
/// behind another, with neither the sequence number nor the port of a request.
[[nodiscard]] std::string netlink_answers(const verbs::Devices& devices,
                                          const std::vector<stack::DeviceAddress>& addresses);

}  // namespace rockhopper::apps::launcher
