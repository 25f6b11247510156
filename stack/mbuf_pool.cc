// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/mbuf_pool.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_memzone.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stack/memory_limit.h"
#include "stack/private_pages.h"

namespace rockhopper::stack {

namespace {

/// Bytes for all objects of a pool, so that none of no more than `page` bytes lies in two pages; 0:
/// they may. Negative: an errno.
ssize_t bytes_of_objects(rte_mempool* pool, std::uint32_t page) {
  const std::uint32_t object = pool->header_size + pool->elt_size + pool->trailer_size;
  std::size_t chunk = 0;
  std::size_t alignment = 0;
  return rte_mempool_op_calc_mem_size_default(
      pool, pool->size, object <= page ? rte_log2_u32(page) : 0, &chunk, &alignment);
}

/// Puts the objects of a pool into memory at `address`, which `release(owner)` gives back with the
/// pool, or at once if this fails. Returns 0 or a negative errno.
int populate(rte_mempool* pool, std::byte* address, std::size_t bytes, void* owner,
             void (*release)(rte_mempool_memhdr*, void*)) {
  // Without huge pages the EAL numbers memory by its virtual addresses.
  const int objects =
      rte_mempool_populate_iova(pool, reinterpret_cast<char*>(address),
                                reinterpret_cast<rte_iova_t>(address), bytes, release, owner);
  if (objects <= 0) release(nullptr, owner);  // the pool has not taken it
  if (objects < 0) return objects;
  return static_cast<std::uint32_t>(objects) == pool->size ? 0 : -ENOMEM;
}

/// In memory that the EAL can pass to another process, which is of small pages.
int populate_shared(rte_mempool* pool) {
  const auto page = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
  const ssize_t needed = bytes_of_objects(pool, page);
  if (needed < 0) return static_cast<int>(needed);
  const std::string name = fmt::format("MB_{}", pool->name);
  const std::size_t bytes = RTE_ALIGN_CEIL(static_cast<std::size_t>(needed), std::size_t{page});
  const rte_memzone* zone =
      rte_memzone_reserve_aligned(name.c_str(), bytes, SOCKET_ID_ANY, 0, page);
  if (zone == nullptr) return -rte_errno;
#ifdef MADV_POPULATE_WRITE  // a fault for each page takes several times as long
  (void)madvise(zone->addr, zone->len, MADV_POPULATE_WRITE);
#endif
  return populate(pool, static_cast<std::byte*>(zone->addr), zone->len,
                  const_cast<rte_memzone*>(zone), [](rte_mempool_memhdr*, void* owner) {
                    rte_memzone_free(static_cast<const rte_memzone*>(owner));
                  });
}

int populate_private(rte_mempool* pool) {
  const ssize_t needed = bytes_of_objects(pool, 0);
  if (needed < 0) return static_cast<int>(needed);
  auto pages = std::make_unique<PrivatePages>();
  if (const int error = pages->map(static_cast<std::size_t>(needed)); error != 0) return -error;
  std::byte* const address = pages->data();
  const std::size_t bytes = pages->size();
  return populate(pool, address, bytes, pages.release(), [](rte_mempool_memhdr*, void* owner) {
    delete static_cast<PrivatePages*>(owner);
  });
}

/// Does what rte_pktmbuf_pool_create() does; null with rte_errno if that fails.
rte_mempool* make_pool(const std::string& name, const MbufPoolConfig& config, unsigned cache,
                       std::uint16_t buffer) {
  const std::uint16_t private_size = config.private_size;
  if (rte_eal_has_hugepages() != 0) {  // which are few
    return rte_pktmbuf_pool_create(name.c_str(), config.size, cache, private_size, buffer,
                                   SOCKET_ID_ANY);
  }
  if (private_size % RTE_MBUF_PRIV_ALIGN != 0) {
    rte_errno = EINVAL;
    return nullptr;
  }
  rte_mempool* pool = rte_mempool_create_empty(
      name.c_str(), config.size, static_cast<unsigned>(sizeof(rte_mbuf)) + private_size + buffer,
      cache, sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY,
      // No device reads what this process alone has: its buffers may lie in two pages.
      config.of_this_process ? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0);
  if (pool == nullptr) return nullptr;
  rte_pktmbuf_pool_private layout{};
  layout.mbuf_data_room_size = buffer;
  layout.mbuf_priv_size = private_size;
  int result = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), nullptr);
  if (result == 0) {
    rte_pktmbuf_pool_init(pool, &layout);
    result = config.of_this_process ? populate_private(pool) : populate_shared(pool);
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
  rte_mempool* pool =
      make_pool(name, config, cache, static_cast<std::uint16_t>(data_room + RTE_PKTMBUF_HEADROOM));
  if (pool == nullptr) {
    const auto megabytes =
        (static_cast<std::uint64_t>(config.size) *
         (sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM + data_room + config.private_size)) >>
        20;
    const std::string limit = memory_limit_text();
    return fail(rte_errno == ENOMEM ? ErrorCode::exhausted : ErrorCode::invalid_argument,
                "mbuf pool {} of {} x {} bytes (about {} MB): {}{}", name, config.size, data_room,
                megabytes, rte_strerror(rte_errno),
                limit.empty() ? "; give the EAL more memory (-m)" : limit);
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

void free_packets(std::span<rte_mbuf*> packets) {
  if (packets.empty()) return;
  rte_mempool* pool = packets.front()->pool;
  unsigned whole = 0;
  for (rte_mbuf* packet : packets) {
    if (packet->nb_segs == 1 && packet->pool == pool && RTE_MBUF_DIRECT(packet) &&
        rte_mbuf_refcnt_read(packet) == 1) {
      packets[whole++] = packet;
    } else {
      rte_pktmbuf_free(packet);
    }
  }
  if (whole > 0) rte_mempool_put_bulk(pool, reinterpret_cast<void**>(packets.data()), whole);
}

}  // namespace rockhopper::stack
