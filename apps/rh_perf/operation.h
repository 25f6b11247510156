// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

#include "apps/common/names.h"

namespace rockhopper::apps {
class Fields;
}  // namespace rockhopper::apps

namespace rockhopper::apps::perf {

enum class Operation : std::uint8_t {
  send,
  write,
  read,
  cas,
  faa,
  lock,  ///< a scope: a lock word, a FETCH_ADD to the counter behind it, and the word again
};

/// The titles are perftest's.
constexpr auto names_of(Operation) {
  return std::array{Names{"send", "Send"},
                    Names{"write", "RDMA_Write"},
                    Names{"read", "RDMA_Read"},
                    Names{"cas", "Atomic CMP_AND_SWAP"},
                    Names{"faa", "Atomic FETCH_AND_ADD"},
                    Names{"lock", "Lock"}};
}

/// Acts on words of 8 bytes.
[[nodiscard]] constexpr bool is_atomic(Operation operation) {
  return operation == Operation::cas || operation == Operation::faa || operation == Operation::lock;
}

/// What a run of one operation and size is for.
enum class RunKind : std::uint8_t { bandwidth, latency, validation };

constexpr auto names_of(RunKind) {
  return std::array{Names{"bandwidth"}, Names{"latency"}, Names{"validation"}};
}

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

  void describe(Fields& fields);
};

}  // namespace rockhopper::apps::perf
