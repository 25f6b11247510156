// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/memory.h"

#include <algorithm>

namespace rockhopper::roce {
namespace {

constexpr std::uint32_t kIndexMask = 0xffff;
constexpr std::size_t kFirstSlots = 64;

std::uint32_t value(MemoryKey key) { return static_cast<std::uint32_t>(key); }

}  // namespace

MemoryTable::MemoryTable(Random& random) : random_(random), slots_(kFirstSlots) {}

Expected<MemoryRegion> MemoryTable::register_region(ProtectionDomain pd, void* base,
                                                    std::uint64_t length, std::uint32_t access,
                                                    std::uint64_t iova) {
  if (base == nullptr || length == 0) {
    return fail(ErrorCode::invalid_argument, "a memory region needs an address and a length");
  }
  if (iova + length < iova || reinterpret_cast<std::uintptr_t>(base) + length < length) {
    return fail(ErrorCode::invalid_argument, "the memory region wraps around the address space");
  }
  if (const std::uint32_t unknown = access & ~(kAccessAll | kAccessRemoteInvalidate);
      unknown != 0) {
    return fail(ErrorCode::unsupported, "unknown access flags {:#x}", unknown);
  }
  if ((access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0 &&
      (access & kAccessLocalWrite) == 0) {
    return fail(ErrorCode::invalid_argument,
                "remote write and atomic access need local write access too");
  }
  if (used_ == kMaxRegions) {
    return fail(ErrorCode::exhausted, "{} memory regions are registered already", used_);
  }
  // At most half full, so that random probing ends soon; the largest table may fill up.
  if (used_ * 2 >= slots_.size() && slots_.size() < kMaxRegions) {
    slots_.resize(slots_.size() * 2);
  }
  std::size_t index = random_.below(slots_.size());
  while (slots_[index].base != nullptr) {
    index = (index + 1) % slots_.size();
  }
  const auto high = static_cast<std::uint32_t>(1 + random_.below(0xffff));  // key 0 never exists
  slots_[index] =
      MemoryRegion{.base = static_cast<std::byte*>(base),
                   .length = length,
                   .iova = iova,
                   .pd = pd,
                   .access = access,
                   .key = MemoryKey{high << kIndexBits | static_cast<std::uint32_t>(index)}};
  ++used_;
  return slots_[index];
}

const MemoryRegion* MemoryTable::find(MemoryKey key) const {
  const std::size_t index = value(key) & kIndexMask;
  if (index >= slots_.size() || slots_[index].base == nullptr || slots_[index].key != key) {
    return nullptr;
  }
  return &slots_[index];
}

Expected<void> MemoryTable::deregister(MemoryKey key) {
  if (find(key) == nullptr) {
    return fail(ErrorCode::not_found, "no memory region has the key {:#010x}", value(key));
  }
  slots_[value(key) & kIndexMask] = MemoryRegion{};
  --used_;
  return {};
}

MemoryAccess MemoryTable::access(MemoryKey key, ProtectionDomain pd, std::uint64_t addr,
                                 std::uint64_t length, std::uint32_t needed_access) const {
  const MemoryRegion* region = find(key);
  if (region == nullptr || region->pd != pd || !region->valid) {
    return {MemoryStatus::invalid_key, nullptr};
  }
#if !ROCKHOPPER_MUTATION_ACCESS_CHECK
  if ((region->access & needed_access) != needed_access) {
    return {MemoryStatus::no_access, nullptr};
  }
#endif
  const std::uint64_t offset = addr - region->iova;
#if !ROCKHOPPER_MUTATION_BOUNDS_CHECK
  // Written so that no sum can wrap.
  if (addr < region->iova || offset > region->length || length > region->length - offset) {
    return {MemoryStatus::out_of_bounds, nullptr};
  }
#endif
  return {MemoryStatus::ok, region->base + offset};
}

bool MemoryTable::invalidate(MemoryKey key, ProtectionDomain pd) {
  const MemoryRegion* region = find(key);
  if (region == nullptr || region->pd != pd || !region->valid ||
      (region->access & kAccessRemoteInvalidate) == 0) {
    return false;
  }
  slots_[value(key) & kIndexMask].valid = false;
  return true;
}

std::size_t MemoryTable::regions_of(ProtectionDomain pd) const {
  return static_cast<std::size_t>(std::count_if(
      slots_.begin(), slots_.end(),
      [pd](const MemoryRegion& region) { return region.base != nullptr && region.pd == pd; }));
}

}  // namespace rockhopper::roce
