// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::roce {

/// A source of unpredictable numbers for QPNs, keys and first PSNs.
class Random {
 public:
  Random() = default;
  Random(const Random&) = delete;
  Random& operator=(const Random&) = delete;
  virtual ~Random() = default;
  [[nodiscard]] virtual std::uint64_t next() = 0;
  /// Uniform in [0, bound). Requires bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);
};

/// The kernel's generator (getrandom). For everything that meets a network.
class SystemRandom final : public Random {
 public:
  [[nodiscard]] std::uint64_t next() override;
};

/// Reproducible and predictable (SplitMix64). For the simulator and tests only.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  [[nodiscard]] std::uint64_t next() override;

 private:
  std::uint64_t state_;
};

}  // namespace rockhopper::roce
