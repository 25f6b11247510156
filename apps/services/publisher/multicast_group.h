// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/types.h"
#include "roce/wire/qpn.h"
#include "stack/ip_address.h"

namespace rockhopper::publisher {

/// Where copies of a publisher's messages go (PB-13), and how they are known: datagrams from this
/// queue pair at this address, with this Q_Key.
struct MulticastGroup {
  stack::IpAddress group;
  stack::IpAddress source;  ///< of the same family
  wire::Qpn source_qpn{};
  std::uint32_t qkey = 0;
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;  ///< longer records are not copied
  friend bool operator==(const MulticastGroup&, const MulticastGroup&) = default;
};

}  // namespace rockhopper::publisher
