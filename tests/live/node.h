// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/endpoint.h"
#include "dc/dct.h"
#include "dc/endpoint.h"
#include "stack/error.h"

namespace rockhopper::live {

/// Bytes of a counter in a target's memory.
inline constexpr std::uint64_t kWordBytes = 8;

struct TargetOptions {
  std::uint32_t targets = 4;
  /// Counters of FETCH_ADDs in the memory, which begin at 0.
  std::uint32_t words = 64;
  std::uint32_t memory = 1 << 20;  ///< bytes for WRITEs behind them
  std::uint32_t contexts = 64;
  std::uint32_t tombstone_ms = 1000;
  std::uint32_t lease_ms = 500;
  std::uint32_t idle_us = 100;
  std::uint32_t cnaks_per_second = 100'000;
};

struct InitiatorOptions {
  std::string peer;  ///< file with what the target has printed at its start
  std::string operation = "faa";
  std::uint32_t initiators = 1;
  std::uint32_t streams = 1;
  std::uint32_t window = 1;   ///< requests outstanding in each stream
  std::uint32_t size = 8;     ///< bytes of a WRITE
  std::uint32_t place = 0;    ///< first of the target's words, or bytes of its memory, that it uses
  std::uint8_t timeout = 14;  ///< local ACK timeout code
  std::uint64_t messages = 0;  ///< 0: until it is stopped
  double seconds = 0;          ///< 0: likewise
};

/// Serves until a signal: one line of JSON when it is ready, one at its end.
[[nodiscard]] Expected<void> run_target(apps::Endpoint& endpoint, const TargetOptions& options);

/// Sends each request to another target than the one before, if there are several: FETCH_ADDs of 1
/// to a word of its own for each target, or WRITEs that it reads back at the end. One line of JSON:
/// how many of each target's requests succeeded, and how many have an unknown outcome. Any other
/// outcome is an error.
[[nodiscard]] Expected<void> run_initiator(apps::Endpoint& endpoint,
                                           const InitiatorOptions& options, std::uint64_t seed);

}  // namespace rockhopper::live
