// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "tests/dag_graph/graph_plan.h"

namespace rockhopper::dag::test {

/// What the whole graph has to come to, as hexadecimal digits: reckoned from the plan alone, one
/// node after another, with nothing of the library but the definition of a digest (digest_task.h).
[[nodiscard]] std::string evaluate(const GraphPlan& plan);

/// The output of one node, and of all that it needs.
[[nodiscard]] std::string evaluate_node(const GraphPlan& plan, const std::string& key);

}  // namespace rockhopper::dag::test
