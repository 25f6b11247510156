// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "roce/random.h"
#include "roce/types.h"
#include "stack/error.h"

namespace rockhopper::roce {

/// A registered piece of the caller's memory (IBTA vol. 1, 10.6). The memory stays the caller's
/// and must outlive the registration.
struct MemoryRegion {
  std::byte* base = nullptr;
  std::uint64_t length = 0;
  std::uint64_t iova = 0;  ///< the address that requests use for `base`
  ProtectionDomain pd;
  std::uint32_t access = 0;
  MemoryKey key{};    ///< lkey and rkey
  bool valid = true;  ///< not invalidated by the peer
};

enum class MemoryStatus : std::uint8_t {
  ok,
  invalid_key,  ///< no such key, or of another protection domain
  out_of_bounds,
  no_access,  ///< the region lacks a right that the request needs
};

struct MemoryAccess {
  MemoryStatus status;
  std::byte* data;  ///< valid for the asked length when status is ok
};

/// The regions of one engine by key. A key is looked up for each packet, so that a deregistered
/// region is never touched again: whatever was in flight towards it is refused with a NAK or a
/// local protection error. Belongs to the engine's thread.
class MemoryTable {
 public:
  static constexpr std::uint32_t kMaxRegions = 1u << 16;

  explicit MemoryTable(Random& random);

  /// Registers [base, base + length). Remote write and atomic rights need local write, as in verbs.
  [[nodiscard]] Expected<MemoryRegion> register_region(ProtectionDomain pd, void* base,
                                                       std::uint64_t length, std::uint32_t access,
                                                       std::uint64_t iova);
  /// From the return on no packet reads or writes the region.
  [[nodiscard]] Expected<void> deregister(MemoryKey key);

  /// Invalidates the key on behalf of a remote SEND with Invalidate: the region must have
  /// kAccessRemoteInvalidate and be of `pd`, and must not be invalid already. It still has to be
  /// deregistered by its owner. False: nothing happened.
  [[nodiscard]] bool invalidate(MemoryKey key, ProtectionDomain pd);

  /// Checks one access of `length` bytes at `addr` (an iova) and gives its local place.
  /// Overflow of addr + length is out of bounds.
  [[nodiscard]] MemoryAccess access(MemoryKey key, ProtectionDomain pd, std::uint64_t addr,
                                    std::uint64_t length, std::uint32_t needed_access) const;

  [[nodiscard]] std::size_t size() const { return used_; }
  [[nodiscard]] std::size_t regions_of(ProtectionDomain pd) const;

 private:
  static constexpr std::uint32_t kIndexBits = 16;

  [[nodiscard]] const MemoryRegion* find(MemoryKey key) const;

  Random& random_;
  std::vector<MemoryRegion> slots_;  ///< index = low bits of the key; base null when free
  std::size_t used_ = 0;
};

}  // namespace rockhopper::roce
