// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "apps/common/cm_node.h"
#include "apps/rh_accounts/options.h"

namespace rockhopper::apps::accounts {

/// Transfers between random accounts and audits the table; the report. Fails if an audit does.
[[nodiscard]] Expected<nlohmann::json> transfer(CmNode& node, const Options& options);

}  // namespace rockhopper::apps::accounts
