// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>

namespace rockhopper::stack {

/// Allows `burst` events at once and one more each `interval_ns`.
class TokenBucket {
 public:
  TokenBucket(std::uint64_t interval_ns, std::uint64_t burst)
      : interval_ns_(interval_ns), burst_(burst), tokens_(burst) {}

  [[nodiscard]] bool take(std::uint64_t now_ns) {
    const std::uint64_t earned = now_ns > filled_ns_ ? (now_ns - filled_ns_) / interval_ns_ : 0;
    if (earned > 0) {
      tokens_ = std::min(burst_, tokens_ + std::min(burst_, earned));
      filled_ns_ += earned * interval_ns_;
    }
    if (tokens_ == burst_) filled_ns_ = std::max(filled_ns_, now_ns);
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }

 private:
  std::uint64_t interval_ns_;
  std::uint64_t burst_;
  std::uint64_t tokens_;
  std::uint64_t filled_ns_ = 0;  ///< up to when tokens have been credited
};

}  // namespace rockhopper::stack
