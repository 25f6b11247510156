// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/mbuf_pool.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_memzone.h>
#include <sys/mman.h>
#include <unistd.h>

namespace rockhopper::stack {

namespace {

/// Lets the kernel make small pages all at once: a fault for each takes several times as long, and
/// those of the pools would be most of the time in which a program starts and ends.
void make_pages([[maybe_unused]] const rte_memzone& zone) {
#ifdef MADV_POPULATE_WRITE  // Linux 5.14; without it each page is made when it is first used
  (void)madvise(zone.addr, zone.len, MADV_POPULATE_WRITE);
#endif
}

/// Does what rte_mempool_populate_default() does, in one piece of small pages. Returns 0 or a
/// negative errno.
int populate_small_pages(rte_mempool* pool) {
  const auto page = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
  const std::uint32_t object = pool->header_size + pool->elt_size + pool->trailer_size;
  // No smaller object lies in two pages.
  const std::uint32_t page_shift = object <= page ? rte_log2_u32(page) : 0;
  std::size_t chunk = 0;
  std::size_t alignment = 0;
  const ssize_t length =
      rte_mempool_op_calc_mem_size_default(pool, pool->size, page_shift, &chunk, &alignment);
  if (length < 0) return static_cast<int>(length);
  const std::string name = fmt::format("MB_{}", pool->name);
  const rte_memzone* zone = rte_memzone_reserve_aligned(
      name.c_str(), RTE_ALIGN_CEIL(static_cast<std::size_t>(length), std::size_t{page}),
      SOCKET_ID_ANY, 0, std::max(static_cast<unsigned>(alignment), page));
  if (zone == nullptr) return -rte_errno;
  make_pages(*zone);
  const int objects = rte_mempool_populate_iova(
      pool, static_cast<char*>(zone->addr), zone->iova, zone->len,
      [](rte_mempool_memhdr*, void* opaque) {
        rte_memzone_free(static_cast<const rte_memzone*>(opaque));
      },
      const_cast<rte_memzone*>(zone));
  if (objects <= 0) rte_memzone_free(zone);  // the pool has not taken it
  if (objects < 0) return objects;
  return static_cast<std::uint32_t>(objects) == pool->size ? 0 : -ENOMEM;
}

/// Does what rte_pktmbuf_pool_create() does; null with rte_errno if that fails.
rte_mempool* make_pool(const std::string& name, unsigned size, unsigned cache,
                       std::uint16_t private_size, std::uint16_t buffer) {
  if (rte_eal_has_hugepages() != 0) {  // which are few
    return rte_pktmbuf_pool_create(name.c_str(), size, cache, private_size, buffer, SOCKET_ID_ANY);
  }
  if (private_size % RTE_MBUF_PRIV_ALIGN != 0) {
    rte_errno = EINVAL;
    return nullptr;
  }
  rte_mempool* pool = rte_mempool_create_empty(
      name.c_str(), size, static_cast<unsigned>(sizeof(rte_mbuf)) + private_size + buffer, cache,
      sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY, 0);
  if (pool == nullptr) return nullptr;
  rte_pktmbuf_pool_private layout{};
  layout.mbuf_data_room_size = buffer;
  layout.mbuf_priv_size = private_size;
  int result = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), nullptr);
  if (result == 0) {
    rte_pktmbuf_pool_init(pool, &layout);
    result = populate_small_pages(pool);
  }
  if (result < 0) {
    rte_mempool_free(pool);
    rte_errno = -result;
    return nullptr;
  }
  rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
  return pool;
}

}  // namespace

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
  rte_mempool* pool = make_pool(name, config.size, cache, config.private_size,
                                static_cast<std::uint16_t>(data_room + RTE_PKTMBUF_HEADROOM));
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
