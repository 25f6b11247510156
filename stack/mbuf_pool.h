// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <string>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "stack/error.h"

namespace rockhopper::stack {

struct MbufPoolConfig {
  std::string name{};           ///< unique in the process; empty chooses one
  std::uint32_t size = 8191;    ///< number of mbufs; 2^n - 1 wastes no memory
  std::uint16_t cache = 256;    ///< mbufs kept by each lcore, at most 512 and size / 1.5; 0 is none
  std::uint16_t data_room = 0;  ///< bytes of data a buffer holds, without headroom; 0: 2048
  std::uint16_t private_size = 0;  ///< bytes between mbuf and data, a multiple of 8
  /// No device hands the buffers' memory to another process (stack::shares_buffers()). Without huge
  /// pages of the EAL's they then lie outside its memory, in pages that the kernel may make huge,
  /// and the pool is there in a fraction of the time.
  bool of_this_process = false;
};

/// Frees packets, as rte_pktmbuf_free() does each: those of one pool are given back to it at once.
void free_packets(std::span<rte_mbuf*> packets);

/// Takes mbufs for packets of one segment that will be sent: all or none, and returns whether there
/// were so many. begin_packet() makes each of them an empty packet; return_mbufs() gives back those
/// that stay unused.
[[nodiscard]] inline bool take_mbufs(rte_mempool* pool, rte_mbuf** mbufs, std::uint32_t count) {
  return rte_mempool_get_bulk(pool, reinterpret_cast<void**>(mbufs), count) == 0;
}
inline void return_mbufs(rte_mempool* pool, rte_mbuf** mbufs, std::uint32_t count) {
  if (count > 0) rte_mempool_put_bulk(pool, reinterpret_cast<void**>(mbufs), count);
}
/// An mbuf in a pool has one reference and one segment. Of the rest rte_pktmbuf_reset() sets what
/// only receivers read, too, and the lengths, which the caller is to set.
inline void begin_packet(rte_mbuf* packet) {
  packet->data_off = RTE_PKTMBUF_HEADROOM;
  packet->ol_flags &= RTE_MBUF_F_EXTERNAL;
  packet->tx_offload = 0;
  assert(rte_mbuf_refcnt_read(packet) == 1 && packet->nb_segs == 1 && packet->next == nullptr &&
         packet->buf_len >= RTE_PKTMBUF_HEADROOM);
}

/// Owns a packet mempool. Every mbuf must have come back before it ends. Any thread may use it.
class MbufPool {
 public:
  [[nodiscard]] static Expected<MbufPool> create(const MbufPoolConfig& config);
  MbufPool() = default;
  MbufPool(MbufPool&& other) noexcept;
  MbufPool& operator=(MbufPool&& other) noexcept;
  ~MbufPool();

  [[nodiscard]] rte_mempool* get() const { return pool_; }
  /// Mbufs that are out; lcore caches do not count. Walks the caches: not for the data path.
  [[nodiscard]] std::uint32_t in_use() const;

 private:
  explicit MbufPool(rte_mempool* pool) : pool_(pool) {}
  rte_mempool* pool_ = nullptr;
};

}  // namespace rockhopper::stack
