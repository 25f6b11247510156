// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

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
