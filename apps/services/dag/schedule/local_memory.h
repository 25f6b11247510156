// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "roce/owned.h"

namespace rockhopper::dag {

/// Registered memory of a worker, aligned to 64: where READs and atomics bring what they find.
/// Grows when nothing is under way to it, and then loses what is in it.
class LocalMemory {
 public:
  LocalMemory(roce::Engine& engine, roce::ProtectionDomain pd) : engine_(engine), pd_(pd) {}
  LocalMemory(const LocalMemory&) = delete;
  LocalMemory& operator=(const LocalMemory&) = delete;

  [[nodiscard]] Expected<void> reserve(std::size_t bytes);
  /// Memory that peers reach from address 0 on, with these rights.
  [[nodiscard]] Expected<void> expose(std::size_t bytes, std::uint32_t access);
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::byte* data() const { return reinterpret_cast<std::byte*>(lines_.get()); }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), size_}; }
  [[nodiscard]] roce::MemoryKey key() const { return region_.key(); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  void allocate(std::size_t bytes);

  roce::Engine& engine_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<Line[]> lines_;
  std::size_t size_ = 0;
  roce::OwnedRegion region_;  ///< of the lines
};

}  // namespace rockhopper::dag
