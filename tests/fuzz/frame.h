// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "stack/error.h"
#include "tests/fuzz/fuzz_target.h"

/// Packets to and from an engine that has no link: the two hosts, and frames around transports.
namespace rockhopper::fuzz {

inline constexpr std::uint32_t kOwnIpv4 = 0x0a000001;
inline constexpr std::uint32_t kPeerIpv4 = 0x0a000002;
inline constexpr rte_ether_addr kOwnMac{{2, 0, 0, 0, 0, 1}};
inline constexpr rte_ether_addr kPeerMac{{2, 0, 0, 0, 0, 2}};

/// One for the process, which a run leaves as it found it. Never freed: as ensure_eal().
[[nodiscard]] rte_mempool* frame_pool();

/// A frame from the peer with right lower headers and ICRC around `transport`, which lacks the
/// ICRC.
[[nodiscard]] test::Bytes make_frame(std::span<const std::uint8_t> transport);
/// In one mbuf, or in pieces of which the first has `first` bytes.
[[nodiscard]] rte_mbuf* make_packet(const test::Bytes& frame, std::size_t first = SIZE_MAX);
/// Frees the packet; its bytes.
[[nodiscard]] test::Bytes take_packet(rte_mbuf* packet);
/// What follows the UDP header; empty if the frame is not UDP over IPv4.
[[nodiscard]] std::span<const std::uint8_t> transport_of(const test::Bytes& frame);

/// What a set-up that cannot fail has made.
template <typename T>
T must(Expected<T> result) {
  check(result.has_value());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace rockhopper::fuzz
