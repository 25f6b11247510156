// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace rockhopper::dag {

using Digest = std::array<std::byte, 32>;

/// SHA-256 of texts and numbers, one hash after another. One thread at a time.
class Sha256 {
 public:
  Sha256();

  void add(std::span<const std::byte> bytes);
  /// Little endian.
  void add_number(std::uint64_t number);
  /// Behind its length, so that no two lists of texts are the same bytes.
  void add_with_length(std::span<const std::byte> bytes);
  void add_with_length(std::string_view text) { add_with_length(std::as_bytes(std::span(text))); }
  /// The digest of what was added since the last call, or the beginning.
  [[nodiscard]] Digest finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

}  // namespace rockhopper::dag
