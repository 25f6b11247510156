// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/services/ami/reduction.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {

/// One collective as all ranks of a group are to start it.
struct Planned {
  enum class Kind : std::uint8_t { barrier, broadcast, all_reduce };
  Kind kind = Kind::barrier;
  unsigned root = 0;
  std::uint32_t length = 0;  ///< bytes
  ami::Reduction reduction = ami::Reduction::sum;
  ami::ElementType element = ami::ElementType::int64;
  std::uint64_t value = 0;  ///< from which the content follows
};

/// `vector_bytes`: the longest vector that is reduced; `long_bytes`: the longest broadcast.
[[nodiscard]] Planned draw_collective(Rng& rng, unsigned ranks, std::uint32_t vector_bytes,
                                      std::uint32_t long_bytes, bool broadcasts_only);

/// What a rank's memory holds when it starts the collective.
[[nodiscard]] std::vector<std::byte> given(const Planned& planned, unsigned rank);
/// What it must hold in the end, at every rank. Says for itself what the order of operations is
/// (docs/ami.md), and knows nothing of how the library comes to it.
[[nodiscard]] std::vector<std::byte> expected(const Planned& planned, unsigned ranks);

}  // namespace rockhopper::sim
