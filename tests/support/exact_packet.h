// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rte_mbuf.h>

namespace rockhopper::test {

/// A packet of `bytes` in one segment for each entry of `lengths` (which add up to the size of
/// `bytes`; an entry may be 0), each an allocation of exactly its length: AddressSanitizer sees a
/// read beyond any of them, which it does not in a mempool's buffers. Returns nullptr when the pool
/// is empty.
[[nodiscard]] rte_mbuf* make_exact_packet(rte_mempool* pool, std::span<const std::uint8_t> bytes,
                                          std::span<const std::size_t> lengths);

}  // namespace rockhopper::test
