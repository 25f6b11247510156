// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::publisher {

/// How far the writer of a store has got. The position is what it changes last, so that a READ
/// after another one has been seen finds all that belongs to it.
struct StoreTail {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  ///< ControlBlock::tail_pos; conflated: tail_seq
  friend bool operator==(const StoreTail&, const StoreTail&) = default;
};

}  // namespace rockhopper::publisher
