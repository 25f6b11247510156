// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/perf/operation.h"

#include <algorithm>
#include <array>

namespace rockhopper::apps::perf {
namespace {

struct OperationName {
  Operation operation;
  std::string_view name;
  std::string_view title;
};

constexpr std::array kOperations = {
    OperationName{Operation::send, "send", "Send"},
    OperationName{Operation::write, "write", "RDMA_Write"},
    OperationName{Operation::read, "read", "RDMA_Read"},
    OperationName{Operation::cas, "cas", "Atomic CMP_AND_SWAP"},
    OperationName{Operation::faa, "faa", "Atomic FETCH_AND_ADD"},
};

constexpr std::array<std::string_view, 3> kKinds = {"bandwidth", "latency", "validation"};

}  // namespace

std::string_view to_string(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)].name;
}

std::string_view title(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)].title;
}

std::optional<Operation> parse_operation(std::string_view name) {
  const auto found = std::find_if(kOperations.begin(), kOperations.end(),
                                  [name](const OperationName& item) { return item.name == name; });
  if (found == kOperations.end()) return std::nullopt;
  return found->operation;
}

std::string_view to_string(RunKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::optional<RunKind> parse_run_kind(std::string_view name) {
  const auto found = std::find(kKinds.begin(), kKinds.end(), name);
  if (found == kKinds.end()) return std::nullopt;
  return static_cast<RunKind>(found - kKinds.begin());
}

}  // namespace rockhopper::apps::perf
