// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>

namespace rockhopper::roce {

/// Makes memory persistent, for the peer's FLUSH requests: the application knows whether its memory
/// wants msync(), a cache line write back or something else. Called from the engine's thread, which
/// waits meanwhile.
class Persistence {
 public:
  Persistence() = default;
  Persistence(const Persistence&) = delete;
  Persistence& operator=(const Persistence&) = delete;
  virtual ~Persistence() = default;
  /// What [data, data + length) of registered memory holds must outlive a power failure. False: it
  /// will not.
  [[nodiscard]] virtual bool persist(std::byte* data, std::size_t length) noexcept = 0;
};

}  // namespace rockhopper::roce
