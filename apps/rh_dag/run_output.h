// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/rh_dag/records.h"
#include "apps/services/dag/record.h"
#include "apps/services/dag/result.h"

namespace rockhopper::apps::dag_node {

/// Fails unless it is RUN/NODE.
[[nodiscard]] Expected<void> check_node_key(std::string_view key);

/// Where the control words of a node's record say that its output is; nothing: it has none yet.
[[nodiscard]] std::optional<dag::Pointer> output_of(const dag::ControlWords& control);

/// Reads the output of a node of a run: its record by key, then what that one points to. The
/// status is `not_found` too if it has none yet. All keys of `records` must be at home.
[[nodiscard]] Expected<RecordResult> read_output(Records& records, const std::string& key);

}  // namespace rockhopper::apps::dag_node
