// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace rockhopper::dag {

/// When a worker without work looks for some: at first often, and each time that it has asked all
/// others in vain, after twice as long.
class SearchPace {
 public:
  /// Between two looks, both above 0.
  SearchPace(std::uint64_t min_ns, std::uint64_t max_ns)
      : min_ns_(min_ns), max_ns_(max_ns), interval_ns_(min_ns) {
    assert(0 < min_ns && min_ns <= max_ns);
  }

  [[nodiscard]] std::uint64_t next_ns() const { return next_ns_; }
  [[nodiscard]] bool is_due(std::uint64_t now_ns) const { return now_ns >= next_ns_; }

  /// It looks once more, at one of `others`.
  void on_look(std::size_t others, std::uint64_t now_ns) {
    if (++in_vain_ > others) {
      in_vain_ = 0;
      interval_ns_ = std::min(2 * interval_ns_, max_ns_);
    }
    next_ns_ = now_ns + interval_ns_;
  }
  /// There was something: it may look again at once.
  void on_found(std::uint64_t now_ns) {
    in_vain_ = 0;
    interval_ns_ = min_ns_;
    next_ns_ = now_ns;
  }

 private:
  std::uint64_t min_ns_;
  std::uint64_t max_ns_;
  std::uint64_t interval_ns_;  ///< from min_ns_ to max_ns_
  std::uint64_t next_ns_ = 0;
  std::size_t in_vain_ = 0;  ///< looks since something was found, or since it became slower
};

}  // namespace rockhopper::dag
