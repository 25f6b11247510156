// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/graph/function_registry.h"
#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/graph/sha256.h"

/// Tasks whose outputs prove that each dependency was honoured: an output is made of the outputs
/// before it, so that one task left out, run too early, or given wrong bytes changes all behind it.
namespace rockhopper::dag {

inline constexpr FunctionId kDigestFunction{1, 1};

/// The arguments of the digest function, 16 bytes, little endian.
struct DigestArguments {
  static constexpr std::size_t kSize = 16;

  std::uint64_t seed = 0;
  std::uint64_t output_bytes = 0;  ///< a digest's 32 are the least

  /// Returns nothing if they have another length.
  [[nodiscard]] static std::optional<DigestArguments> parse(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> emit() const;
};

/// SHA-256 of the key, the seed, what the node's task before has left, and the inputs in the order
/// of their keys: numbers little endian with 64 bits, each text behind its length, the inputs
/// behind their number.
[[nodiscard]] Digest digest_of(Sha256& sha256, const TaskCall& call, std::uint64_t seed);

/// An output of `bytes`: the digest, and behind it the key stream of AES-256-CTR with the digest as
/// key and a counter from 0 on. Never less than the digest.
[[nodiscard]] Expected<void> expand(const Digest& digest, std::uint64_t bytes,
                                    std::vector<std::byte>& output);

/// Registers the digest function. A task asks for `output_bytes_max` at most.
[[nodiscard]] Expected<void> add_digest_function(FunctionRegistry& registry,
                                                 std::uint64_t output_bytes_max = std::uint64_t{1}
                                                                                  << 32);

/// The result of a whole graph: SHA-256 of each node's key and of the SHA-256 of its output, in the
/// order of the keys. So 32 bytes of each output are enough to have it.
class GraphDigest {
 public:
  void add(std::string_view key, const Digest& digest_of_output);
  [[nodiscard]] Digest finish() { return sha256_.finish(); }

 private:
  Sha256 sha256_;
};

[[nodiscard]] std::string to_hex(const Digest& digest);

}  // namespace rockhopper::dag
