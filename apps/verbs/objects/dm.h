// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <infiniband/verbs.h>

#include "apps/verbs/objects/object.h"

namespace rockhopper::verbs {

/// The most bytes that alloc_dm() gives at a time.
constexpr std::size_t kMaxDmBytes = 1u << 20;

/// Memory of the device: here memory of the process, which the program reaches by copying alone.
class Dm final : public ibv_dm, public Object {
 public:
  static constexpr Kind kKind = Kind::device_memory;

  /// In a Section. `bytes` begins as the program wants it aligned.
  Dm(Context& owner, std::unique_ptr<std::byte, void (*)(void*)> bytes, std::size_t length);
  [[nodiscard]] static Dm* from(ibv_dm* verbs) { return static_cast<Dm*>(verbs); }

  [[nodiscard]] std::byte* bytes() const { return bytes_.get(); }
  /// Whether that piece is within it.
  [[nodiscard]] bool has(std::uint64_t offset, std::size_t length) const {
    return offset <= length_ && length <= length_ - offset;
  }
  // In a Section.
  /// Regions that are in it are `change` more.
  void count_users(int change) { users_ += static_cast<std::uint32_t>(change); }
  [[nodiscard]] bool is_used() const { return users_ != 0; }

 private:
  const std::unique_ptr<std::byte, void (*)(void*)> bytes_;
  const std::size_t length_;
  std::uint32_t users_ = 0;
};

// Verbs.
[[nodiscard]] ibv_dm* alloc_dm(ibv_context* verbs, ibv_alloc_dm_attr* attributes);
[[nodiscard]] int free_dm(ibv_dm* verbs);

}  // namespace rockhopper::verbs
