// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/error.h"

namespace rockhopper::stack {

/// Drops RoCEv2 packets by BTH opcode, and further by one byte behind the start of the BTH.
struct OpcodeDrop {
  std::uint8_t first = 0;
  std::uint8_t last = 0;
  std::optional<std::uint16_t> match_offset{};  ///< from the start of the BTH
  std::uint8_t match_value = 0;
  std::uint64_t skip = 0;            ///< so many matching packets pass first
  std::uint64_t limit = UINT64_MAX;  ///< then at most so many are dropped
};

/// Times without any packet: each lasts length_min_ns to length_max_ns and begins, at random, up to
/// twice `interval_ns` after the one before.
struct BlackHole {
  std::uint64_t length_min_ns = 0;
  std::uint64_t length_max_ns = 0;
  std::uint64_t interval_ns = 0;  ///< mean of the times between; 0: no black holes
  /// One more black hole at a given time after the first packet or poll.
  std::uint64_t fixed_start_ns = 0;
  std::uint64_t fixed_length_ns = 0;
};

/// Faults of one direction. Probabilities are 0 to 1 a packet.
struct FaultRates {
  double loss = 0;
  double corrupt = 0;  ///< one bit of the frame flipped, unless it is ARP
  double duplicate = 0;
  std::uint64_t duplicate_max_ns = 0;  ///< the second copy comes 0 to this much later
  /// Another copy, up to late_max_ns later: unlike a duplicate it takes no room from others, and is
  /// left out where too many wait.
  double late = 0;
  std::uint64_t late_max_ns = 1'000'000'000;
  double reorder = 0;  ///< held back and so overtaken
  std::uint64_t reorder_max_ns = 1'000'000;
  std::uint64_t delay_ns = 0;
  std::uint64_t jitter_ns = 0;         ///< 0 to this much further delay; keeps the order
  std::uint64_t rate_bits_per_s = 0;   ///< of frame bits; 0: no limit
  std::uint32_t queue_packets = 1024;  ///< waiting for the rate at most; more are dropped
  std::uint64_t drop_every = 0;        ///< each nth packet; 0: none
  std::vector<OpcodeDrop> drop_opcodes{};
  BlackHole black_hole{};
};

struct FaultConfig {
  FaultRates rx{};
  FaultRates tx{};
  std::uint64_t seed = 1;
};

/// Reads a specification as "loss=1%,reorder=5%:2ms,rate=1Gbit,rx.drop_opcode=0x10-0x11". Keys hold
/// for both directions, or with "rx." or "tx." before them for one. Later entries override earlier
/// ones, except drop_opcode, which adds up.
///
///     loss=P corrupt=P dup=P[:TIME] reorder=P[:TIME]   probability as 1% or 0.01
///     late=P[:TIME]                                    a copy again, up to so much later
///     delay=TIME jitter=TIME                           250ns 10us 2ms 1.5s
///     rate=RATE queue=PACKETS                          100Mbit, 1Gbit (powers of ten)
///     drop_every=N
///     drop_opcode=OP[-OP][@OFFSET=VALUE][+SKIP][*COUNT]
///                            0x11, 0x06-0x0a, 0xd8@16=3, 0x11*1; 0x06-0x0a+9*1: the tenth only
///     blackhole=TIME[-TIME]/INTERVAL  blackhole_at=START+LENGTH
///     profile=P0..P6   seed=N
///
/// Profiles: P0 none; P1 1 % loss; P2 1 % loss, 1 % duplication, 5 % reordering up to 2 ms, 0.01 %
/// corruption; P3 10 ms delay; P4 black holes of 0.1 to 5 s, 10 s apart; P5 drops by opcode, given
/// by drop_opcode beside it; P6 1 % duplicates and 1 % reordered up to 5 s later.
[[nodiscard]] Expected<FaultConfig> parse_faults(std::string_view specification);

}  // namespace rockhopper::stack
