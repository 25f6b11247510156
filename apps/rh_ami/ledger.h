// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/services/ami/descriptor.h"

namespace rockhopper::apps::messages {

/// Which callbacks are still to be called, of a window of numbered instructions; whether each was
/// called once, and how.
class Ledger {
 public:
  explicit Ledger(std::uint32_t window) : awaited_(window, kNone) {}

  /// The place of `number` in the window is no other's.
  [[nodiscard]] bool has_place(std::uint64_t number) const { return place(number) == kNone; }
  void expect(std::uint64_t number) {
    place(number) = number;
    ++expected_;
  }
  void call(std::uint64_t number, ami::Status status) {
    if (place(number) != number) {
      ++unexpected_;
      return;
    }
    place(number) = kNone;
    ++called_[static_cast<std::size_t>(status)];
    ++calls_;
  }

  [[nodiscard]] std::uint64_t expected() const { return expected_; }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t outstanding() const { return expected_ - calls_; }
  /// Calls with another status than ok.
  [[nodiscard]] std::uint64_t failed() const { return calls_ - called_[0]; }
  /// Twice, or without having been asked for.
  [[nodiscard]] std::uint64_t unexpected() const { return unexpected_; }
  /// "9000 unreachable, 1000 canceled".
  [[nodiscard]] std::string failures() const;

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;
  static constexpr std::size_t kStatuses = 8;

  [[nodiscard]] std::uint64_t& place(std::uint64_t number) {
    return awaited_[number % awaited_.size()];
  }
  [[nodiscard]] const std::uint64_t& place(std::uint64_t number) const {
    return awaited_[number % awaited_.size()];
  }

  std::vector<std::uint64_t> awaited_;  ///< by place: a number
  std::array<std::uint64_t, kStatuses> called_{};
  std::uint64_t expected_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t unexpected_ = 0;
};

}  // namespace rockhopper::apps::messages
