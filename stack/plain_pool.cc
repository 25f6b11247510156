// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/plain_pool.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>

namespace rockhopper::stack {
namespace {

constexpr std::uint32_t kMbufsMax = 1u << 20;
constexpr char kOpsName[] = "rockhopper_plain";

/// The free mbufs: a stack in an array, which lies behind this header.
struct FreeList {
  std::uint32_t count = 0;
  std::uint32_t size = 0;
  [[nodiscard]] std::span<void*> places() { return {reinterpret_cast<void**>(this + 1), size}; }
};
static_assert(sizeof(FreeList) % alignof(void*) == 0);

FreeList& free_list(const rte_mempool* pool) { return *static_cast<FreeList*>(pool->pool_data); }

int enqueue(rte_mempool* pool, void* const* objects, unsigned count) {
  FreeList& list = free_list(pool);
  if (count > list.size - list.count) return -ENOBUFS;
  if (count == 1) {  // nearly always: that needs no call to copy it
    list.places()[list.count++] = objects[0];
    return 0;
  }
  std::copy_n(objects, count, &list.places()[list.count]);
  list.count += count;
  return 0;
}

int dequeue(rte_mempool* pool, void** objects, unsigned count) {
  FreeList& list = free_list(pool);
  if (count > list.count) return -ENOBUFS;
  if (count == 1) {
    objects[0] = list.places()[--list.count];
    return 0;
  }
  list.count -= count;
  std::copy_n(&list.places()[list.count], count, objects);
  return 0;
}

unsigned count_free(const rte_mempool* pool) { return free_list(pool).count; }

// The whole pool is made and freed by PlainPool.
int allocate_nothing(rte_mempool* /*pool*/) { return 0; }
void free_nothing(rte_mempool* /*pool*/) {}

const rte_mempool_ops& plain_ops() {
  static const rte_mempool_ops ops = [] {
    rte_mempool_ops made{};
    std::memcpy(made.name, kOpsName, sizeof kOpsName);
    made.alloc = allocate_nothing;
    made.free = free_nothing;
    made.enqueue = enqueue;
    made.dequeue = dequeue;
    made.get_count = count_free;
    return made;
  }();
  return ops;
}

/// Returns the number by which mempools find the operations; negative: there is no room for them.
int ops_index() {
  static const int index = rte_mempool_register_ops(&plain_ops());
  return index;
}

constexpr std::size_t aligned(std::size_t bytes) { return RTE_CACHE_LINE_ROUNDUP(bytes); }

}  // namespace

Expected<std::unique_ptr<PlainPool>> PlainPool::create(const PlainPoolConfig& config) {
  if (config.size == 0 || config.size > kMbufsMax || config.data_room == 0 ||
      config.data_room > UINT16_MAX - RTE_PKTMBUF_HEADROOM) {
    return fail(ErrorCode::invalid_argument, "a pool of {} mbufs with {} bytes each is impossible",
                config.size, config.data_room);
  }
  std::unique_ptr<PlainPool> pool(new PlainPool);
  if (const int error = pool->set_up(config); error != 0) {
    return fail(ErrorCode::exhausted, "no memory for {} mbufs with {} bytes each: {}", config.size,
                config.data_room, std::generic_category().message(error));
  }
  return pool;
}

/// Lays out what rte_pktmbuf_pool_create() would: the pool, its private data, the free list, and
/// each mbuf behind its header. Returns 0 or an errno.
int PlainPool::set_up(const PlainPoolConfig& config) {
  if (ops_index() < 0) return ENOSPC;
  const auto buffer = static_cast<std::uint16_t>(config.data_room + RTE_PKTMBUF_HEADROOM);
  rte_mempool_objsz size{};
  const std::size_t object_bytes = rte_mempool_calc_obj_size(
      static_cast<std::uint32_t>(sizeof(rte_mbuf)) + buffer, RTE_MEMPOOL_F_NO_SPREAD, &size);
  const std::size_t list_offset = aligned(sizeof(rte_mempool) + sizeof(rte_pktmbuf_pool_private));
  const std::size_t objects_offset =
      list_offset + aligned(sizeof(FreeList) + config.size * sizeof(void*));
  if (const int error = memory_.map(objects_offset + config.size * object_bytes); error != 0) {
    return error;
  }
  std::byte* base = memory_.data();

  pool_ = reinterpret_cast<rte_mempool*>(base);
  std::memcpy(pool_->name, kOpsName, sizeof kOpsName);
  pool_->flags = RTE_MEMPOOL_F_NO_SPREAD | RTE_MEMPOOL_F_NO_IOVA_CONTIG;
  pool_->socket_id = SOCKET_ID_ANY;
  pool_->size = config.size;
  pool_->populated_size = config.size;
  pool_->elt_size = size.elt_size;
  pool_->header_size = size.header_size;
  pool_->trailer_size = size.trailer_size;
  pool_->private_data_size = sizeof(rte_pktmbuf_pool_private);
  pool_->ops_index = ops_index();
  STAILQ_INIT(&pool_->elt_list);
  STAILQ_INIT(&pool_->mem_list);
  auto* list = reinterpret_cast<FreeList*>(base + list_offset);
  list->size = config.size;
  pool_->pool_data = list;
  rte_pktmbuf_pool_private layout{};
  layout.mbuf_data_room_size = buffer;
  rte_pktmbuf_pool_init(pool_, &layout);

  for (std::uint32_t i = 0; i < config.size; ++i) {
    void* object = base + objects_offset + i * object_bytes + size.header_size;
    rte_mempool_objhdr* header = rte_mempool_get_header(object);
    header->mp = pool_;
    header->iova = reinterpret_cast<rte_iova_t>(object);
    STAILQ_INSERT_TAIL(&pool_->elt_list, header, next);
    rte_pktmbuf_init(pool_, nullptr, object, i);
    list->places()[i] = object;
  }
  list->count = config.size;
  return 0;
}

PlainPool::~PlainPool() { assert(pool_ == nullptr || in_use() == 0); }

std::uint32_t PlainPool::in_use() const { return pool_->size - free_list(pool_).count; }

}  // namespace rockhopper::stack
