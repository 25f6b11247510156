// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "roce/masked_atomic.h"
#include "roce/types.h"
#include "roce/wire/opcode.h"
#include "roce/wire/packet.h"

namespace rockhopper::roce {

/// What an atomic request asks for, as its headers say it: compare and swap, fetch and add, and
/// their masked forms (docs/wire.md). Refers to the headers.
class AtomicOperation {
 public:
  /// The headers of an atomic request.
  explicit AtomicOperation(const wire::Headers& headers) : headers_(headers) {}

  /// A subtype of extended atomics may be one that nobody knows.
  [[nodiscard]] bool is_known() const {
    return headers_.opcode->operation != wire::Operation::extended_atomic ||
           headers_.xaeth.subtype == wire::Xaeth::kMaskedCompareSwap ||
           headers_.xaeth.subtype == wire::Xaeth::kMaskedFetchAdd;
  }
  /// The word: its address, as the peer names it, and the key of its region.
  [[nodiscard]] std::uint64_t va() const {
    return has_masks() ? headers_.xaeth.va : headers_.atomic_eth.va;
  }
  [[nodiscard]] MemoryKey key() const {
    return MemoryKey{has_masks() ? headers_.xaeth.rkey : headers_.atomic_eth.rkey};
  }

  /// Changes the word, atomically with respect to the CPU's own atomics. Returns the value before.
  /// `word` is aligned to 8 bytes.
  [[nodiscard]] std::uint64_t perform(std::byte* word) const {
    assert(reinterpret_cast<std::uintptr_t>(word) % sizeof(std::uint64_t) == 0 && is_known());
    std::atomic_ref<std::uint64_t> target(*reinterpret_cast<std::uint64_t*>(word));
    if (headers_.opcode->operation == wire::Operation::compare_swap) {
      std::uint64_t original = headers_.atomic_eth.compare;
      target.compare_exchange_strong(original, headers_.atomic_eth.swap_add);
      return original;
    }
    std::uint64_t original = target.load(std::memory_order_relaxed);
    while (!target.compare_exchange_weak(original, result(original))) {
    }
    return original;
  }

 private:
  [[nodiscard]] bool has_masks() const { return headers_.opcode->has(wire::Header::xaeth); }
  /// Returns what a request other than a plain compare and swap leaves where it finds `value`.
  [[nodiscard]] std::uint64_t result(std::uint64_t value) const {
    const wire::Xaeth& xaeth = headers_.xaeth;
    if (headers_.opcode->operation == wire::Operation::fetch_add) {
      return value + headers_.atomic_eth.swap_add;
    }
    return xaeth.subtype == wire::Xaeth::kMaskedCompareSwap
               ? masked_compare_swap(value, xaeth.compare, xaeth.compare_mask, xaeth.swap_add,
                                     xaeth.mask)
               : masked_add(value, xaeth.swap_add, xaeth.mask);
  }

  const wire::Headers& headers_;
};

}  // namespace rockhopper::roce
