// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "apps/common/cm_node.h"
#include "apps/rh_accounts/options.h"

namespace rockhopper::apps::accounts {

/// Serves a table until a signal, or until its clients have left; the report. Fails if money has
/// been lost or made, or if a lock is left behind.
[[nodiscard]] Expected<nlohmann::json> serve(CmNode& node, const Options& options);

}  // namespace rockhopper::apps::accounts
