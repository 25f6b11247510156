// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <type_traits>

#include "apps/services/ami/descriptor.h"

namespace rockhopper::ami {

/// Is told what happens in the memory that application and adapter share, by address: so a test
/// sees what was injected where, whatever the FIFO says of itself.
class FifoTap {
 public:
  FifoTap() = default;
  FifoTap(const FifoTap&) = delete;
  FifoTap& operator=(const FifoTap&) = delete;
  virtual ~FifoTap() = default;
  virtual void on_injected(const void* slot, const Descriptor& descriptor) = 0;
  virtual void on_taken(const void* slot) = 0;
  /// A bit of a word of the mask, or of the words above it.
  virtual void on_bit(const std::atomic<std::uint64_t>& word) = 0;
};
inline FifoTap* fifo_tap = nullptr;

/// In place of apps/services/ami/sync.h's.
struct Sync {
  template <typename T>
  class Atomic : public std::atomic<T> {
   public:
    using std::atomic<T>::atomic;
    T fetch_or(T bits, std::memory_order order) {
      if (fifo_tap != nullptr) fifo_tap->on_bit(*this);
      return std::atomic<T>::fetch_or(bits, order);
    }
  };

  template <typename T>
  class Cell {
   public:
    [[nodiscard]] const T& read() const {
      if constexpr (std::is_same_v<T, Descriptor>) {
        if (fifo_tap != nullptr) fifo_tap->on_taken(this);
      }
      return value_;
    }
    void write(const T& value) { value_ = value; }
    template <typename Fill>
    void fill(const Fill& fill) {
      fill(value_);
      if constexpr (std::is_same_v<T, Descriptor>) {
        if (fifo_tap != nullptr) fifo_tap->on_injected(this, value_);
      }
    }

   private:
    T value_{};
  };
};

}  // namespace rockhopper::ami
