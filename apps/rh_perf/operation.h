// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rockhopper::apps::perf {

enum class Operation : std::uint8_t {
  send,
  write,
  read,
  cas,
  faa,
  lock,  ///< a scope: a lock word, a FETCH_ADD to the counter behind it, and the word again
};

/// The name that options and JSON use.
[[nodiscard]] std::string_view to_string(Operation operation);
[[nodiscard]] std::optional<Operation> parse_operation(std::string_view name);
/// The name that perftest uses in its titles.
[[nodiscard]] std::string_view title(Operation operation);

/// Acts on words of 8 bytes.
[[nodiscard]] constexpr bool is_atomic(Operation operation) {
  return operation == Operation::cas || operation == Operation::faa || operation == Operation::lock;
}

/// What a run of one operation and size is for.
enum class RunKind : std::uint8_t { bandwidth, latency, validation };

[[nodiscard]] std::string_view to_string(RunKind kind);
[[nodiscard]] std::optional<RunKind> parse_run_kind(std::string_view name);

/// One run, as both ends know it.
struct RunSpec {
  Operation operation = Operation::send;
  RunKind kind = RunKind::bandwidth;
  std::uint32_t size = 0;         ///< bytes of a message; 8 for atomics
  std::uint64_t iterations = 0;   ///< for each queue pair; 0: by time
  std::uint64_t duration_ns = 0;  ///< of the measured part
  std::uint64_t warmup = 0;       ///< iterations before it, for each queue pair
  bool bidirectional = false;     ///< the server does the same towards the client
  std::uint64_t seed = 0;         ///< of the test data
};

}  // namespace rockhopper::apps::perf
