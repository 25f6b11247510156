// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <rte_mbuf.h>

#include "roce/memory.h"
#include "roce/work_request.h"

namespace rockhopper::roce {

/// Bytes inside a received packet, possibly over several segments. Does not own the packet.
struct MbufBytes {
  const rte_mbuf* packet = nullptr;
  std::uint32_t offset = 0;  ///< from the start of the packet
  std::uint32_t length = 0;
};

/// copy_from_mbuf() for bytes that lie in several segments.
void copy_from_segments(const MbufBytes& bytes, std::byte* to);

/// Copies all of `bytes` to `to`, which has room for them. Mostly there is one segment.
inline void copy_from_mbuf(const MbufBytes& bytes, std::byte* to) {
  if (bytes.offset + bytes.length <= bytes.packet->data_len) [[likely]] {
    std::memcpy(to, rte_pktmbuf_mtod_offset(bytes.packet, const std::byte*, bytes.offset),
                bytes.length);
  } else {
    copy_from_segments(bytes, to);
  }
}

/// Calls `visit(std::byte* data, std::uint32_t length)` for each piece of registered memory that
/// holds bytes [offset, offset + length) of the scatter/gather list, in order. Stops at the first
/// piece that the keys do not allow, or when `visit` returns false; then the pieces before it have
/// been visited. The range must lie within the list.
template <typename Visit>
[[nodiscard]] MemoryStatus for_each_piece(const MemoryTable& memory, ProtectionDomain pd,
                                          std::span<const Sge> list, std::uint64_t offset,
                                          std::uint32_t length, std::uint32_t access,
                                          Visit&& visit) {
  for (const Sge& sge : list) {
    if (length == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const auto piece =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(length, sge.length - offset));
    const MemoryAccess found = memory.access(sge.lkey, pd, sge.addr + offset, piece, access);
    if (found.status != MemoryStatus::ok) return found.status;
    if (!visit(found.data, piece)) break;
    length -= piece;
    offset = 0;
  }
  return MemoryStatus::ok;
}

/// Copies a payload to bytes [offset, ...) of a scatter list; see for_each_piece.
[[nodiscard]] inline MemoryStatus scatter(const MemoryTable& memory, ProtectionDomain pd,
                                          std::span<const Sge> list, std::uint64_t offset,
                                          MbufBytes payload) {
  return for_each_piece(memory, pd, list, offset, payload.length, kAccessLocalWrite,
                        [&payload](std::byte* data, std::uint32_t length) {
                          copy_from_mbuf({payload.packet, payload.offset, length}, data);
                          payload.offset += length;
                          return true;
                        });
}

}  // namespace rockhopper::roce
