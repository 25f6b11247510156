// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/support/exact_packet.h"

#include <algorithm>
#include <cassert>
#include <memory>

namespace rockhopper::test {
namespace {

/// The buffer of one segment.
struct Buffer {
  explicit Buffer(std::span<const std::uint8_t> content)
      : bytes(std::make_unique<std::uint8_t[]>(content.size())) {
    std::copy(content.begin(), content.end(), bytes.get());
  }
  std::unique_ptr<std::uint8_t[]> bytes;
  rte_mbuf_ext_shared_info shared{};
};

rte_mbuf* make_segment(rte_mempool* pool, std::span<const std::uint8_t> content) {
  rte_mbuf* segment = rte_pktmbuf_alloc(pool);
  if (segment == nullptr) return nullptr;
  auto* buffer = new Buffer(content);
  buffer->shared.free_cb = [](void*, void* opaque) { delete static_cast<Buffer*>(opaque); };
  buffer->shared.fcb_opaque = buffer;
  rte_mbuf_ext_refcnt_set(&buffer->shared, 1);
  const auto length = static_cast<std::uint16_t>(content.size());
  rte_pktmbuf_attach_extbuf(segment, buffer->bytes.get(), RTE_BAD_IOVA, length, &buffer->shared);
  segment->data_off = 0;
  segment->data_len = length;
  segment->pkt_len = length;
  return segment;
}

}  // namespace

rte_mbuf* make_exact_packet(rte_mempool* pool, std::span<const std::uint8_t> bytes,
                            std::span<const std::size_t> lengths) {
  rte_mbuf* packet = nullptr;
  std::size_t at = 0;
  for (const std::size_t length : lengths) {
    rte_mbuf* segment = make_segment(pool, bytes.subspan(at, length));
    at += length;
    if (packet == nullptr) {
      packet = segment;
    } else if (segment == nullptr || rte_pktmbuf_chain(packet, segment) != 0) {
      rte_pktmbuf_free(segment);
      rte_pktmbuf_free(packet);
      return nullptr;
    }
    if (packet == nullptr) return nullptr;
  }
  assert(at == bytes.size());
  return packet;
}

}  // namespace rockhopper::test
