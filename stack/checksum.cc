// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/checksum.h"

#include <algorithm>
#include <array>
#include <bit>

#include <rte_byteorder.h>
#include <rte_ip.h>

namespace rockhopper::stack {

// rte_raw_cksum_mbuf() of DPDK 22.11 is not used: where a segment starts at an odd offset it swaps
// the low half of an unfolded sum and so loses the carries.
std::uint16_t raw_checksum(const rte_mbuf* packet, std::uint32_t offset, std::uint32_t length) {
  std::uint16_t sum = 0;
  bool odd = false;
  for (const rte_mbuf* segment = packet; length > 0; segment = segment->next) {
    const std::uint32_t available = rte_pktmbuf_data_len(segment);
    if (offset >= available) {
      offset -= available;
      continue;
    }
    const std::uint32_t taken = std::min(available - offset, length);
    const std::uint16_t part =
        rte_raw_cksum(rte_pktmbuf_mtod_offset(segment, const void*, offset), taken);
    sum = add_checksums(sum, odd ? rte_bswap16(part) : part);
    odd = odd != ((taken & 1) != 0);
    length -= taken;
    offset = 0;
  }
  return sum;
}

std::uint16_t pseudo_header_checksum(const IpAddress& source, const IpAddress& destination,
                                     std::uint8_t protocol, std::uint32_t length) {
  // IPv4 sums its 4 bytes only: the ::ffff:0:0/96 before them is no part of the packet.
  const std::size_t skip = source.is_ipv4() ? 12 : 0;
  const std::array<std::uint32_t, 2> tail{rte_cpu_to_be_32(length), rte_cpu_to_be_32(protocol)};
  std::uint16_t sum = rte_raw_cksum(tail.data(), sizeof tail);
  sum = add_checksums(sum, rte_raw_cksum(&source.bytes[skip], source.bytes.size() - skip));
  return add_checksums(sum,
                       rte_raw_cksum(&destination.bytes[skip], destination.bytes.size() - skip));
}

}  // namespace rockhopper::stack
