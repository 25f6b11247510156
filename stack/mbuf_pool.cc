// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/mbuf_pool.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <rte_errno.h>
#include <rte_lcore.h>

namespace rockhopper::stack {

Expected<MbufPool> MbufPool::create(const MbufPoolConfig& config) {
  static std::atomic<unsigned> next_number{0};
  const std::string name =
      config.name.empty() ? fmt::format("rockhopper-{}", next_number.fetch_add(1)) : config.name;
  const std::uint16_t data_room =
      config.data_room == 0 ? RTE_MBUF_DEFAULT_DATAROOM : config.data_room;
  if (config.size == 0 || data_room > UINT16_MAX - RTE_PKTMBUF_HEADROOM) {
    return fail(ErrorCode::invalid_argument,
                "mbuf pool {}: size {} with data room {} is impossible", name, config.size,
                data_room);
  }
  // DPDK's own limits (rte_mempool_create).
  const unsigned cache =
      std::min({static_cast<unsigned>(config.cache),
                static_cast<unsigned>(RTE_MEMPOOL_CACHE_MAX_SIZE), config.size * 2 / 3});
  rte_mempool* pool = rte_pktmbuf_pool_create(
      name.c_str(), config.size, cache, config.private_size,
      static_cast<std::uint16_t>(data_room + RTE_PKTMBUF_HEADROOM), SOCKET_ID_ANY);
  if (pool == nullptr) {
    const auto megabytes =
        (static_cast<std::uint64_t>(config.size) *
         (sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM + data_room + config.private_size)) >>
        20;
    return fail(rte_errno == ENOMEM ? ErrorCode::exhausted : ErrorCode::invalid_argument,
                "mbuf pool {} of {} x {} bytes (about {} MB): {}; give the EAL more memory (-m)",
                name, config.size, data_room, megabytes, rte_strerror(rte_errno));
  }
  return MbufPool(pool);
}

MbufPool::MbufPool(MbufPool&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}

MbufPool& MbufPool::operator=(MbufPool&& other) noexcept {
  std::swap(pool_, other.pool_);
  return *this;
}

MbufPool::~MbufPool() { rte_mempool_free(pool_); }

std::uint32_t MbufPool::in_use() const { return rte_mempool_in_use_count(pool_); }

}  // namespace rockhopper::stack
