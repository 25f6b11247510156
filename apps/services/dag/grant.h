// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/types.h"
#include "roce/wire/qpn.h"

namespace rockhopper::dag {

/// What a server gives a client for its use alone. It reaches the client by whatever way programs
/// exchange addresses.
struct Grant {
  std::uint32_t client = 0;       ///< its number at this server, above 0, never used again
  wire::Qpn target;               ///< of the server, for this client
  std::uint64_t access_key = 0;   ///< of the target
  roce::MemoryKey records_key{};  ///< of all records, from address 0 on
  std::uint64_t records_bytes = 0;
  roce::MemoryKey area_key{};           ///< of its ClientArea, at address 0
  roce::MemoryKey application_key{};    ///< of the application's memory, to READ and for atomics,
                                        ///< from address 0 on
  std::uint64_t application_bytes = 0;  ///< 0: there is none
  std::uint64_t lease_ns = 0;           ///< silent for so long, it is fenced
  std::uint32_t capacity_max = 0;       ///< of a record, bytes
  std::uint8_t hash_bits = 64;          ///< of the server's map
};

}  // namespace rockhopper::dag
