// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "stack/error.h"

namespace rockhopper::apps::dag_node {

/// Whether the document says that it is of WfFormat 1.0 to 1.4.
[[nodiscard]] bool is_older_wfformat(const nlohmann::json& document);

/// The same workflow as one of WfFormat 1.5, which has specification and execution apart, files in
/// a list of their own, and tasks that are named by ids. An older file names tasks by their names,
/// by ids where names are not unique; it says the size of a file wherever one is used, and who
/// writes it knows best. Fails only where no 1.5 could be made of it: what else is wrong is found
/// in the result.
[[nodiscard]] Expected<nlohmann::json> to_current_wfformat(const nlohmann::json& document);

}  // namespace rockhopper::apps::dag_node
