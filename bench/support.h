// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "roce/queue_pair.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::bench {

/// The value, or an exception that ends the program with one line.
template <typename T>
T must(Expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct ConnectionConfig {
  roce::PathMtu path_mtu = roce::PathMtu::mtu_4096;
  std::uint8_t max_rd_atomic = 16;  ///< both ways
};

/// Takes a queue pair from RESET to RTS, all rights granted, first PSNs 0.
void connect(roce::QueuePair& qp, const ConnectionConfig& config, const stack::IpAddress& own,
             const stack::IpAddress& peer, wire::Qpn peer_qpn);

}  // namespace rockhopper::bench
