// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/payload.h"

#include <cassert>

namespace rockhopper::roce {

void copy_from_segments(const MbufBytes& bytes, std::byte* to) {
  const rte_mbuf* segment = bytes.packet;
  std::uint32_t offset = bytes.offset;
  std::uint32_t left = bytes.length;
  while (left > 0) {
    assert(segment != nullptr);
    if (offset >= segment->data_len) {
      offset -= segment->data_len;
      segment = segment->next;
      continue;
    }
    const std::uint32_t piece = std::min<std::uint32_t>(left, segment->data_len - offset);
    std::memcpy(to, rte_pktmbuf_mtod_offset(segment, const std::byte*, offset), piece);
    to += piece;
    left -= piece;
    offset += piece;
  }
}

}  // namespace rockhopper::roce
