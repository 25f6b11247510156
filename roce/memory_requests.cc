// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What requests do to regions and windows: bind, fast registration, invalidate
// (IBTA vol. 1, 10.6.7 and 10.6.8).
#include "roce/memory.h"

namespace rockhopper::roce {

/// A window of type 1 may be bound anew at any time; one of type 2 has to be invalid.
bool MemoryTable::may_bind(const Entry& window, const MemoryUser& user) const {
  const bool free = window.kind == MemoryKind::window_type_1 ||
                    (window.kind == MemoryKind::window_type_2 && !window.valid);
  return free && window.pd == user.pd;
}

bool MemoryTable::bind(MemoryKey rkey, const MwBindInfo& info, const MemoryUser& user) {
  Entry* window = find_any_generation(rkey);
  if (window == nullptr || !may_bind(*window, user) ||
      (info.access & ~(kAccessRemote | kAccessZeroBased)) != 0) {
    return false;
  }
  if (info.length == 0 && window->kind == MemoryKind::window_type_1) {
    unbind(*window);
    window->key = rkey;
    return true;
  }
  const bool changes = (info.access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
  const std::uint32_t needed = kAccessMwBind | (changes ? std::uint32_t{kAccessLocalWrite} : 0u);
  Entry* region = find(info.mr);
  if (region == nullptr || !serves(*region, user.pd)) return false;
  // Whether the memory is there matters when it is accessed.
  const MemoryAccess place = range_of(*region, info.addr, info.length, needed);
  if (place.status != MemoryStatus::ok || info.length == 0) return false;
  unbind(*window);
  window->base = place.data;
  window->length = info.length;
  window->iova = (info.access & kAccessZeroBased) != 0 ? 0 : info.addr;
  window->access = (info.access & kAccessRemote) | (region->access & kAccessOnDemand);
  window->key = rkey;
  window->valid = true;
  window->qp = user.qp;
  window->parent = static_cast<std::uint32_t>(region - slots_.data());
  ++region->windows;
  return true;
}

void MemoryTable::unbind(Entry& window) {
  if (window.valid) {
    window.valid = false;
    --slots_[window.parent].windows;
  }
}

bool MemoryTable::register_fast(const MemoryRegion& region, const MemoryUser& user) {
  Entry* entry = find_any_generation(region.key);
  if (entry == nullptr || entry->kind != MemoryKind::fast_region || entry->valid ||
      entry->pd != user.pd || region.base == nullptr || region.length == 0 ||
      region.length > entry->max_length || region.iova + region.length < region.iova ||
      reinterpret_cast<std::uintptr_t>(region.base) + region.length < region.length ||
      (region.access & ~kAccessFastRegion) != 0 || !is_consistent_access(region.access)) {
    return false;
  }
  entry->base = region.base;
  entry->length = region.length;
  entry->iova = region.iova;
  entry->access = region.access;
  entry->key = region.key;
  entry->valid = true;
  return true;
}

bool MemoryTable::invalidate(MemoryKey key, const MemoryUser& user) {
  Entry* entry = find(key);
  if (entry == nullptr || !entry->valid || entry->pd != user.pd) return false;
  if (entry->kind == MemoryKind::window_type_2 && entry->qp == user.qp) {
    unbind(*entry);
    return true;
  }
  if (entry->kind == MemoryKind::fast_region && entry->windows == 0) {
    entry->valid = false;
    return true;
  }
  return false;
}

bool MemoryTable::remote_invalidate(MemoryKey key, const MemoryUser& user) {
  Entry* entry = find(key);
  if (entry == nullptr || entry->kind != MemoryKind::region) return invalidate(key, user);
  if (entry->pd != user.pd || !entry->valid || entry->windows > 0 ||
      (entry->access & kAccessRemoteInvalidate) == 0) {
    return false;
  }
  entry->valid = false;
  return true;
}

}  // namespace rockhopper::roce
