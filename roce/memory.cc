// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Regions and windows come and go, and are looked up.
#include "roce/memory.h"

#include <algorithm>
#include <utility>

namespace rockhopper::roce {
namespace {

constexpr std::size_t kFirstSlots = 64;  // a power of two

std::uint32_t value(MemoryKey key) { return static_cast<std::uint32_t>(key); }

bool has_generations(MemoryKind kind) {
  return kind != MemoryKind::none && kind != MemoryKind::region;
}

bool same_but_for_generation(MemoryKey a, MemoryKey b) {
  return ((value(a) ^ value(b)) & ~kKeyGenerationMask) == 0;
}

}  // namespace

MemoryAccess MemoryTable::range_of(const Entry& entry, std::uint64_t addr, std::uint64_t length,
                                   std::uint32_t needed_access) {
  return range(entry, addr, length, needed_access);
}

bool MemoryTable::serves(const Entry& entry, ProtectionDomain pd) {
  return entry.pd == pd && entry.valid && entry.kind <= MemoryKind::fast_region;
}

MemoryTable::MemoryTable(Random& random, MemoryPager* pager)
    : random_(random), pager_(pager), slots_(kFirstSlots), index_mask_(kFirstSlots - 1) {}

Expected<MemoryTable::Entry*> MemoryTable::add(ProtectionDomain pd, MemoryKind kind) {
  if (used_ == kMaxRegions) {
    return fail(ErrorCode::exhausted, "{} memory regions and windows exist already", used_);
  }
  // At most half full, so that random probing ends soon; the largest table may fill up.
  if (used_ * 2 >= slots_.size() && slots_.size() < kMaxRegions) {
    slots_.resize(slots_.size() * 2);
    index_mask_ = slots_.size() - 1;
  }
  std::size_t index = random_.below(slots_.size());
  while (slots_[index].kind != MemoryKind::none) {
    index = (index + 1) % slots_.size();
  }
  const auto high = static_cast<std::uint32_t>(1 + random_.below(0xff));  // key 0 never exists
  const auto generation = static_cast<std::uint32_t>(random_.below(1u << kGenerationBits));
  Entry& entry = slots_[index];
  entry = Entry{};
  entry.pd = pd;
  entry.kind = kind;
  entry.key = MemoryKey{
      (high << kIndexBits | static_cast<std::uint32_t>(index)) << kGenerationBits | generation};
  ++used_;
  return &entry;
}

void MemoryTable::remove(Entry& entry) {
  entry = Entry{};
  --used_;
}

Expected<void> MemoryTable::check_region(const void* base, std::uint64_t length,
                                         std::uint32_t access, std::uint64_t iova) const {
  if (iova + length < iova || reinterpret_cast<std::uintptr_t>(base) + length < length) {
    return fail(ErrorCode::invalid_argument, "the memory region wraps around the address space");
  }
  if (const std::uint32_t unknown = access & ~kAccessRegion; unknown != 0) {
    return fail(ErrorCode::unsupported, "unknown access flags {:#x}", unknown);
  }
  if ((access & kAccessOnDemand) != 0 && pager_ == nullptr) {
    return fail(ErrorCode::unsupported, "there is no paging on demand");
  }
  if (!is_consistent_access(access)) {
    return fail(ErrorCode::invalid_argument,
                "remote write and atomic access need local write access too");
  }
  return {};
}

Expected<MemoryRegion> MemoryTable::register_region(ProtectionDomain pd, void* base,
                                                    std::uint64_t length, std::uint32_t access,
                                                    std::uint64_t iova) {
  ROCKHOPPER_TRY(check_region(base, length, access, iova));
  ROCKHOPPER_TRY(auto entry, add(pd, MemoryKind::region));
  Entry& region = *entry;
  region.base = static_cast<std::byte*>(base);
  region.length = length;
  region.iova = iova;
  region.access = access;
  region.valid = true;
  region.simple = (access & kAccessOnDemand) == 0;
  return region;
}

Expected<void> MemoryTable::change_region(MemoryKey key, ProtectionDomain pd, void* base,
                                          std::uint64_t length, std::uint32_t access,
                                          std::uint64_t iova) {
  ROCKHOPPER_TRY(check_region(base, length, access, iova));
  Entry* region = find(key);
  if (region == nullptr || region->kind != MemoryKind::region) {
    return fail(ErrorCode::not_found, "no memory region has the key {:#010x}", value(key));
  }
  if (region->windows > 0) {
    return fail(ErrorCode::busy, "{} memory windows are bound to the region", region->windows);
  }
  region->pd = pd;
  region->base = static_cast<std::byte*>(base);
  region->length = length;
  region->iova = iova;
  region->access = access;
  region->valid = true;
  region->simple = (access & kAccessOnDemand) == 0;
  return {};
}

Expected<MemoryRegion> MemoryTable::allocate_fast_region(ProtectionDomain pd,
                                                         std::uint64_t max_length) {
  if (max_length == 0) {
    return fail(ErrorCode::invalid_argument, "a fast region of no bytes is of no use");
  }
  ROCKHOPPER_TRY(auto entry, add(pd, MemoryKind::fast_region));
  entry->max_length = max_length;
  entry->simple = true;
  return *entry;
}

Expected<MemoryWindow> MemoryTable::allocate_window(ProtectionDomain pd, MemoryKind kind) {
  if (kind != MemoryKind::window_type_1 && kind != MemoryKind::window_type_2) {
    return fail(ErrorCode::invalid_argument, "memory windows are of type 1 or 2");
  }
  ROCKHOPPER_TRY(auto entry, add(pd, kind));
  return MemoryWindow{.pd = pd, .rkey = entry->key, .kind = kind};
}

const MemoryTable::Entry* MemoryTable::find_any_generation(MemoryKey key) const {
  const std::size_t index = index_of(key);
  if (index >= slots_.size() || slots_[index].kind == MemoryKind::none ||
      !same_but_for_generation(slots_[index].key, key)) {
    return nullptr;
  }
  return &slots_[index];
}

MemoryTable::Entry* MemoryTable::find_any_generation(MemoryKey key) {
  return const_cast<Entry*>(std::as_const(*this).find_any_generation(key));
}

MemoryStatus MemoryTable::why_not_found(MemoryKey key) const {
  const Entry* entry = find_any_generation(key);
  return entry != nullptr && has_generations(entry->kind) ? MemoryStatus::stale_generation
                                                          : MemoryStatus::invalid_key;
}

Expected<void> MemoryTable::deregister(MemoryKey key) {
  Entry* region = find_any_generation(key);
  const bool right_kind =
      region != nullptr && (region->kind == MemoryKind::fast_region ||
                            (region->kind == MemoryKind::region && region->key == key));
  if (!right_kind) {
    return fail(ErrorCode::not_found, "no memory region has the key {:#010x}", value(key));
  }
  if (region->windows > 0) {
    return fail(ErrorCode::busy, "{} memory windows are bound to the region", region->windows);
  }
  remove(*region);
  return {};
}

Expected<void> MemoryTable::deallocate_window(MemoryKey rkey) {
  Entry* window = find_any_generation(rkey);
  if (window == nullptr ||
      (window->kind != MemoryKind::window_type_1 && window->kind != MemoryKind::window_type_2)) {
    return fail(ErrorCode::not_found, "no memory window has the key {:#010x}", value(rkey));
  }
  unbind(*window);
  remove(*window);
  return {};
}

MemoryAccess MemoryTable::access(MemoryKey key, ProtectionDomain pd, std::uint64_t addr,
                                 std::uint64_t length, std::uint32_t needed_access) const {
  const Entry* entry = find(key);
  if (entry == nullptr) [[unlikely]] {
    return {why_not_found(key), nullptr};
  }
  if (entry->pd != pd || !entry->valid || !entry->simple) [[unlikely]] {
    return access_others(*entry, pd, addr, length, needed_access);
  }
  return range(*entry, addr, length, needed_access);
}

MemoryAccess MemoryTable::remote_access(MemoryKey key, const MemoryUser& user, std::uint64_t addr,
                                        std::uint64_t length, std::uint32_t needed_access) const {
  const Entry* entry = find(key);
  if (entry == nullptr) [[unlikely]] {
    return {why_not_found(key), nullptr};
  }
  if (entry->pd != user.pd || !entry->valid || !entry->simple) [[unlikely]] {
    return remote_access_others(*entry, user, addr, length, needed_access);
  }
  return range(*entry, addr, length, needed_access);
}

MemoryAccess MemoryTable::access_others(const Entry& entry, ProtectionDomain pd, std::uint64_t addr,
                                        std::uint64_t length, std::uint32_t needed_access) const {
  if (!serves(entry, pd)) return {MemoryStatus::invalid_key, nullptr};
  return present_range(entry, addr, length, needed_access);
}

MemoryAccess MemoryTable::remote_access_others(const Entry& entry, const MemoryUser& user,
                                               std::uint64_t addr, std::uint64_t length,
                                               std::uint32_t needed_access) const {
  if (entry.pd != user.pd || !entry.valid) return {MemoryStatus::invalid_key, nullptr};
  if (entry.kind == MemoryKind::window_type_2 && entry.qp != user.qp) {
    return {MemoryStatus::invalid_key, nullptr};
  }
  return present_range(entry, addr, length, needed_access);
}

MemoryAccess MemoryTable::present_range(const Entry& entry, std::uint64_t addr,
                                        std::uint64_t length, std::uint32_t needed_access) const {
  constexpr std::uint32_t kWrites = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteAtomic;
  const MemoryAccess found = range_of(entry, addr, length, needed_access);
  if ((entry.access & kAccessOnDemand) == 0 || found.status != MemoryStatus::ok) return found;
  const bool there = pager_->page_in(found.data, length, (needed_access & kWrites) != 0);
  return there ? found : MemoryAccess{MemoryStatus::not_mapped, nullptr};
}

MemoryTable::Extent MemoryTable::extent_of(MemoryKey key) const {
  const Entry* entry = find(key);
  return entry == nullptr ? Extent{} : Extent{.first = entry->iova, .length = entry->length};
}

MemoryKind MemoryTable::kind_of(MemoryKey key) const {
  const Entry* entry = find_any_generation(key);
  return entry == nullptr ? MemoryKind::none : entry->kind;
}

std::size_t MemoryTable::regions_of(ProtectionDomain pd) const {
  return static_cast<std::size_t>(std::count_if(
      slots_.begin(), slots_.end(),
      [pd](const Entry& entry) { return entry.kind != MemoryKind::none && entry.pd == pd; }));
}

}  // namespace rockhopper::roce
