// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "roce/random.h"
#include "roce/types.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"

namespace rockhopper::roce {

/// Says of memory that is paged on demand whether it is there, as protocol code has no way to know.
class MemoryPager {
 public:
  MemoryPager() = default;
  MemoryPager(const MemoryPager&) = delete;
  MemoryPager& operator=(const MemoryPager&) = delete;
  virtual ~MemoryPager() = default;
  /// Brings the bytes in; returns false if some of them are not mapped or, if `writes`, must not be
  /// written. Called on the engine's thread for each access of a region with kAccessOnDemand.
  [[nodiscard]] virtual bool page_in(const std::byte* data, std::uint64_t length, bool writes) = 0;
};

/// What a key stands for.
enum class MemoryKind : std::uint8_t {
  none,
  region,         ///< as ibv_reg_mr
  fast_region,    ///< registered by requests, as ib_alloc_mr of the kernel's verbs
  window_type_1,  ///< memory windows, as enum ibv_mw_type
  window_type_2,  ///< 2B: only the queue pair that bound it may use it
};

/// A registered piece of the caller's memory (IBTA vol. 1, 10.6). The memory stays the caller's
/// and must outlive the registration.
struct MemoryRegion {
  std::byte* base = nullptr;
  std::uint64_t length = 0;
  std::uint64_t iova = 0;  ///< the address that requests use for `base`
  ProtectionDomain pd;
  std::uint32_t access = 0;
  MemoryKey key{};     ///< lkey and rkey
  bool valid = false;  ///< bound or registered, and not invalidated since
  MemoryKind kind = MemoryKind::none;
};

/// A piece of a region that others may be given rights to for a time, as ibv_mw.
struct MemoryWindow {
  ProtectionDomain pd;
  MemoryKey rkey{};
  MemoryKind kind = MemoryKind::none;
};

/// Where and with which rights a window is bound, as ibv_mw_bind_info.
struct MwBindInfo {
  MemoryKey mr{};            ///< a region with kAccessMwBind
  std::uint64_t addr = 0;    ///< as requests name the region's bytes
  std::uint64_t length = 0;  ///< 0: unbinds a window of type 1
  std::uint32_t access = 0;  ///< remote rights, and kAccessZeroBased: addresses count from 0
};

/// Low bits of a key that are the consumer's: the generation of a window or fast region.
inline constexpr std::uint32_t kKeyGenerationMask = 0xff;

/// The key with the next generation, as ibv_inc_rkey.
[[nodiscard]] constexpr MemoryKey next_generation(MemoryKey key) {
  const auto value = static_cast<std::uint32_t>(key);
  return MemoryKey{(value & ~kKeyGenerationMask) | ((value + 1) & kKeyGenerationMask)};
}

enum class MemoryStatus : std::uint8_t {
  ok,
  invalid_key,       ///< no such key, of another protection domain or queue pair, or invalidated
  stale_generation,  ///< a window or fast region has another generation by now
  out_of_bounds,
  no_access,   ///< the region lacks a right that the request needs
  not_mapped,  ///< the region is paged on demand, and the memory is not there
};

struct MemoryAccess {
  MemoryStatus status;
  std::byte* data;  ///< valid for the asked length when status is ok
};

/// The user on whose behalf memory is accessed.
struct MemoryUser {
  ProtectionDomain pd;
  wire::Qpn qp;
};

/// The regions and windows of one engine by key. A key is looked up for each packet, so that a
/// region that has gone is never touched again: whatever was in flight towards it is refused with a
/// NAK or a local protection error. Belongs to the engine's thread.
class MemoryTable {
 public:
  static constexpr std::uint32_t kMaxRegions = 1u << 16;  ///< windows among them

  /// `pager` is not owned and may be null: regions with kAccessOnDemand are `unsupported` then.
  explicit MemoryTable(Random& random, MemoryPager* pager = nullptr);

  /// Registers [base, base + length), which may be empty, or begin with the address 0 for all of
  /// the process's memory. Remote write and atomic rights need local write, as in verbs. Of a
  /// region with kAccessOnDemand the memory may come and go; it must not go while it is accessed.
  [[nodiscard]] Expected<MemoryRegion> register_region(ProtectionDomain pd, void* base,
                                                       std::uint64_t length, std::uint32_t access,
                                                       std::uint64_t iova);
  /// As ibv_rereg_mr: the region with the key is from now on what register_region() would make of
  /// the arguments, and keeps its key. Fails, and changes nothing, as register_region() does, and
  /// while windows are bound to it.
  [[nodiscard]] Expected<void> change_region(MemoryKey key, ProtectionDomain pd, void* base,
                                             std::uint64_t length, std::uint32_t access,
                                             std::uint64_t iova);
  /// A region without memory, for register_fast(), of up to `max_length` bytes.
  [[nodiscard]] Expected<MemoryRegion> allocate_fast_region(ProtectionDomain pd,
                                                            std::uint64_t max_length);
  /// From the return on no packet reads or writes the region. Fails while windows are bound to it.
  /// For a fast region any generation of the key will do.
  [[nodiscard]] Expected<void> deregister(MemoryKey key);

  /// An unbound window of either type.
  [[nodiscard]] Expected<MemoryWindow> allocate_window(ProtectionDomain pd, MemoryKind kind);
  /// From the return on nobody uses the window. Any generation of the key will do.
  [[nodiscard]] Expected<void> deallocate_window(MemoryKey rkey);

  // What requests of a queue pair do. False: it is not allowed, and nothing has changed.

  /// Binds a window, which gets the key `rkey`: the one it has but for the generation.
  [[nodiscard]] bool bind(MemoryKey rkey, const MwBindInfo& info, const MemoryUser& user);
  /// Gives a fast region that is invalid its memory, rights and key, the one it has but for the
  /// generation.
  [[nodiscard]] bool register_fast(const MemoryRegion& region, const MemoryUser& user);
  /// Local invalidate: of a window of type 2 or a fast region without windows.
  [[nodiscard]] bool invalidate(MemoryKey key, const MemoryUser& user);
  /// The peer's SEND with Invalidate: as invalidate(), and of a region with
  /// kAccessRemoteInvalidate, which has to be deregistered all the same.
  [[nodiscard]] bool remote_invalidate(MemoryKey key, const MemoryUser& user);

  /// Checks one access of `length` bytes at `addr` (an iova) of a region and gives its local place.
  /// Overflow of addr + length is out of bounds.
  [[nodiscard]] MemoryAccess access(MemoryKey key, ProtectionDomain pd, std::uint64_t addr,
                                    std::uint64_t length, std::uint32_t needed_access) const;
  /// The same for a peer's request: windows serve too.
  [[nodiscard]] MemoryAccess remote_access(MemoryKey key, const MemoryUser& user,
                                           std::uint64_t addr, std::uint64_t length,
                                           std::uint32_t needed_access) const;

  /// Serves what nearly all accesses of both kinds name: a region whose memory is always there.
  /// Returns null for any other, and where there is something to refuse: the two above say what.
  [[nodiscard]] std::byte* simple_access(MemoryKey key, ProtectionDomain pd, std::uint64_t addr,
                                         std::uint64_t length, std::uint32_t needed_access) const;

  /// The addresses of a region or window: `first + length` does not wrap, as registration sees to.
  struct Extent {
    std::uint64_t first = 0;
    std::uint64_t length = 0;
  };
  /// All bytes [addr, addr + length) are within it. Written so that no sum can wrap; an address in
  /// front of it has an offset beyond it, as the extent does not wrap.
  [[nodiscard]] static bool has(const Extent& extent, std::uint64_t addr, std::uint64_t length) {
    assert(extent.first + extent.length >= extent.first);
    const std::uint64_t offset = addr - extent.first;
    return offset <= extent.length && length <= extent.length - offset;
  }

  /// simple_access() of one user, for a loop within which no region changes: it asks for a key once
  /// where accesses in a row name the same.
  class SimpleUser {
   public:
    SimpleUser(const MemoryTable& table, ProtectionDomain pd, std::uint32_t needed_access)
        : table_(table), pd_(pd), needed_access_(needed_access) {}

    [[nodiscard]] std::byte* access(MemoryKey key, std::uint64_t addr, std::uint64_t length) {
      if (key != key_ || length_ == 0) {
        const Entry* entry = table_.find_simple(key, pd_);
        if (entry == nullptr || (entry->access & needed_access_) != needed_access_) return nullptr;
        key_ = key;
        iova_ = entry->iova;
        length_ = entry->length;
        base_ = reinterpret_cast<std::uintptr_t>(entry->base);
      }
      return has({iova_, length_}, addr, length)
                 ? reinterpret_cast<std::byte*>(base_ + (addr - iova_))
                 : nullptr;
    }

   private:
    const MemoryTable& table_;
    ProtectionDomain pd_;
    std::uint32_t needed_access_;
    MemoryKey key_{};
    std::uint64_t iova_ = 0;
    std::uint64_t length_ = 0;  ///< 0: no key has been found yet
    std::uintptr_t base_ = 0;
  };

  /// Of the region or window with the key; nothing of others.
  [[nodiscard]] Extent extent_of(MemoryKey key) const;
  /// What the key, in any generation, stands for.
  [[nodiscard]] MemoryKind kind_of(MemoryKey key) const;
  [[nodiscard]] std::size_t size() const { return used_; }
  [[nodiscard]] std::size_t regions_of(ProtectionDomain pd) const;

 private:
  struct Entry : MemoryRegion {
    bool simple = false;           ///< a region whose memory is always there
    wire::Qpn qp{};                ///< window of type 2: the queue pair that has bound it
    std::uint32_t parent = 0;      ///< bound window: index of its region
    std::uint32_t windows = 0;     ///< region: windows bound to it
    std::uint64_t max_length = 0;  ///< fast region
  };

  // A key: 8 random bits, 16 of the place, 8 of the generation, which begins at random too.
  static constexpr unsigned kGenerationBits = 8;
  static constexpr unsigned kIndexBits = 16;
  [[nodiscard]] static constexpr std::size_t index_of(MemoryKey key) {
    return static_cast<std::uint32_t>(key) >> kGenerationBits & ((1u << kIndexBits) - 1);
  }

  [[nodiscard]] Expected<void> check_region(const void* base, std::uint64_t length,
                                            std::uint32_t access, std::uint64_t iova) const;
  [[nodiscard]] Expected<Entry*> add(ProtectionDomain pd, MemoryKind kind);
  void remove(Entry& entry);
  /// Returns null unless the key is that of an entry, generation and all. For the key 0 the result
  /// may be a free place, so callers ask for `valid` or use nothing but its empty range.
  [[nodiscard]] const Entry* find(MemoryKey key) const {
    // A place beyond the table leads to one within it, whose key is another then. A free place has
    // the key 0, which never exists, and is not valid.
    const std::size_t index = index_of(key) & index_mask_;
    return slots_[index].key == key ? &slots_[index] : nullptr;
  }
  /// The same, of those that simple_access() serves.
  [[nodiscard]] const Entry* find_simple(MemoryKey key, ProtectionDomain pd) const {
    const Entry* entry = find(key);
    return entry != nullptr && entry->pd == pd && entry->valid && entry->simple ? entry : nullptr;
  }
  [[nodiscard]] Entry* find(MemoryKey key) {
    return const_cast<Entry*>(std::as_const(*this).find(key));
  }
  /// The entry whose key it is but for the generation.
  [[nodiscard]] const Entry* find_any_generation(MemoryKey key) const;
  [[nodiscard]] Entry* find_any_generation(MemoryKey key);
  [[nodiscard]] MemoryStatus why_not_found(MemoryKey key) const;
  /// The entry is a region, not a window, that requests of the domain may use now.
  [[nodiscard]] static bool serves(const Entry& entry, ProtectionDomain pd);
  [[nodiscard]] static MemoryAccess range(const Entry& entry, std::uint64_t addr,
                                          std::uint64_t length, std::uint32_t needed_access);
  /// The same, where it is not done for each packet.
  [[nodiscard]] static MemoryAccess range_of(const Entry& entry, std::uint64_t addr,
                                             std::uint64_t length, std::uint32_t needed_access);
  /// As access() and remote_access(), of an entry that is not simple.
  [[nodiscard, gnu::noinline]] MemoryAccess access_others(const Entry& entry, ProtectionDomain pd,
                                                          std::uint64_t addr, std::uint64_t length,
                                                          std::uint32_t needed_access) const;
  [[nodiscard, gnu::noinline]] MemoryAccess remote_access_others(const Entry& entry,
                                                                 const MemoryUser& user,
                                                                 std::uint64_t addr,
                                                                 std::uint64_t length,
                                                                 std::uint32_t needed_access) const;
  /// range(), and the memory is there if it is paged on demand.
  [[nodiscard]] MemoryAccess present_range(const Entry& entry, std::uint64_t addr,
                                           std::uint64_t length, std::uint32_t needed_access) const;
  [[nodiscard]] bool may_bind(const Entry& window, const MemoryUser& user) const;
  void unbind(Entry& window);

  Random& random_;
  MemoryPager* const pager_;
  std::vector<Entry> slots_;  ///< a power of two
  std::size_t index_mask_;    ///< slots_.size() - 1
  std::size_t used_ = 0;
};

inline MemoryAccess MemoryTable::range(const Entry& entry, std::uint64_t addr, std::uint64_t length,
                                       std::uint32_t needed_access) {
  if ((entry.access & needed_access) != needed_access) return {MemoryStatus::no_access, nullptr};
  if (!has({entry.iova, entry.length}, addr, length)) return {MemoryStatus::out_of_bounds, nullptr};
  // As numbers: the region of all memory has no object that a pointer could move in.
  const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(entry.base) + (addr - entry.iova);
  return {MemoryStatus::ok, reinterpret_cast<std::byte*>(place)};
}

inline std::byte* MemoryTable::simple_access(MemoryKey key, ProtectionDomain pd, std::uint64_t addr,
                                             std::uint64_t length,
                                             std::uint32_t needed_access) const {
  const Entry* entry = find_simple(key, pd);
  return entry == nullptr ? nullptr : range(*entry, addr, length, needed_access).data;
}

}  // namespace rockhopper::roce
