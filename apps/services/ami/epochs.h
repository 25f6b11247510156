// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

namespace rockhopper::ami {

/// How far a communicator's collectives are, by sequence number. Two epochs make up the window. An
/// epoch's collectives give their places up together, when all of them are retired here; other
/// ranks may send messages about them until all ranks have retired them, which a sync finds out. So
/// no more are begun than fit into a window behind the last sync. Epochs are synced in order, not
/// before they are retired.
class Epochs {
 public:
  /// `window` is a power of two from 2 on.
  explicit Epochs(std::uint32_t window) : window_(window) {}

  [[nodiscard]] std::uint32_t length() const { return window_ / 2; }
  /// Returns the sequence number of the collective that begins next.
  [[nodiscard]] std::uint32_t next() const { return next_; }
  [[nodiscard]] bool is_full() const { return next_ - synced_ * length() >= window_; }
  void begin_next() {
    assert(!is_full());
    ++next_;
  }
  /// Returns the first sequence number whose place is not given up.
  [[nodiscard]] std::uint32_t first() const { return retired_ * length(); }
  /// A collective is retired. Calls `free(sequence)` for each whose place is given up by that.
  template <typename Free>
  void retire(std::uint32_t sequence, const Free& free) {
    ++retired_in_[sequence / length() % 2];
    while (retired_in_[retired_ % 2] == length()) {
      retired_in_[retired_ % 2] = 0;
      for (std::uint32_t i = 0; i < length(); ++i) {
        free(first() + i);
      }
      ++retired_;
    }
  }
  /// Returns which epoch is synced next.
  [[nodiscard]] std::uint32_t synced() const { return synced_; }
  [[nodiscard]] bool is_to_sync() const { return synced_ != retired_; }
  void on_synced() {
    assert(is_to_sync());
    ++synced_;
  }

 private:
  std::uint32_t window_;
  std::uint32_t next_ = 0;
  std::uint32_t retired_ = 0;                  ///< epochs, here
  std::uint32_t synced_ = 0;                   ///< epochs, at all ranks
  std::array<std::uint32_t, 2> retired_in_{};  ///< of an epoch, by its lowest bit
};

}  // namespace rockhopper::ami
