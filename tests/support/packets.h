// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rte_mbuf.h>

#include "stack/random.h"

namespace rockhopper::test {

using Bytes = std::vector<std::uint8_t>;

/// A packet of `bytes` in as many mbufs as needed, none of which holds more than `segment` bytes
/// (0: as much as fits). Fails the test and returns nullptr when the pool is empty.
[[nodiscard]] rte_mbuf* make_packet(rte_mempool* pool, const Bytes& bytes, std::size_t segment = 0);

/// What a packet holds, over all its segments.
[[nodiscard]] Bytes bytes_of(const rte_mbuf* packet);

[[nodiscard]] Bytes random_bytes(stack::Random& random, std::size_t size);

/// A RoCEv2 frame over IPv4 without payload checks: valid Ethernet, IP (with checksum) and UDP
/// headers, a BTH with `opcode` and `psn`, then `payload` and four bytes in the place of the ICRC.
[[nodiscard]] Bytes roce_frame(std::uint8_t opcode, std::uint32_t psn, const Bytes& payload);

}  // namespace rockhopper::test
