// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "apps/services/ami/descriptor.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

struct AmiProfile {
  const char* name = "";
  bool dynamic_connections = false;
  ami::CompletionMode completion = ami::CompletionMode::mask;
  std::uint32_t slots = 64;
  unsigned lanes = 1;                ///< of each node; each talks to all of the other node
  std::uint32_t instructions = 200;  ///< of each lane
  std::uint32_t queue = 16;          ///< of the context
  std::uint32_t transfers = 256;     ///< of the adapter
  std::uint16_t receive_buffers = 16;
  bool slow_applications = false;
  bool cut = false;  ///< at some time nothing arrives any more
  NetworkFaults faults{};
};

struct AmiTotals {
  std::uint64_t runs = 0;
  std::uint64_t instructions = 0;
  std::uint64_t callbacks = 0;
  std::uint64_t failed = 0;   ///< callbacks with an error
  std::uint64_t handled = 0;  ///< messages
  std::uint64_t rendezvous = 0;
  std::uint64_t unknown_handlers = 0;
  std::uint64_t again = 0;   ///< refused for want of room
  std::uint64_t queued = 0;  ///< instructions that had to wait for the FIFO
  std::uint64_t waited = 0;  ///< transfers that had to wait for the transport
  std::uint64_t lost = 0;    ///< packets
};

/// Two nodes whose applications put, get, add and send to each other at random. What they saw that
/// must not be; empty: nothing.
[[nodiscard]] std::string run_ami(std::uint64_t seed, const AmiProfile& profile, PoolSet& pools,
                                  AmiTotals& totals);

}  // namespace rockhopper::sim
