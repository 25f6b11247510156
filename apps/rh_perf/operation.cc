// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/operation.h"

#include <array>

#include "apps/common/names.h"

namespace rockhopper::apps::perf {
namespace {

constexpr std::array kOperations = {
    Names{"send", "Send"},
    Names{"write", "RDMA_Write"},
    Names{"read", "RDMA_Read"},
    Names{"cas", "Atomic CMP_AND_SWAP"},
    Names{"faa", "Atomic FETCH_AND_ADD"},
    Names{"lock", "Lock"},
};

constexpr std::array kKinds = {Names{"bandwidth"}, Names{"latency"}, Names{"validation"}};

}  // namespace

std::string_view to_string(Operation operation) { return names_of(kOperations, operation).name; }

std::string_view title(Operation operation) { return names_of(kOperations, operation).title; }

std::optional<Operation> parse_operation(std::string_view name) {
  return parse_name<Operation>(kOperations, name);
}

std::string_view to_string(RunKind kind) { return names_of(kKinds, kind).name; }

std::optional<RunKind> parse_run_kind(std::string_view name) {
  return parse_name<RunKind>(kKinds, name);
}

}  // namespace rockhopper::apps::perf
