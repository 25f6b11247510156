// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/verbs/objects/context.h"

namespace rockhopper::verbs {

/// Gives the context the verbs that are inline in <infiniband/verbs.h>. Those that Rockhopper does
/// not have remain null, which the header answers with EOPNOTSUPP.
void set_operations(Context& context);

}  // namespace rockhopper::verbs
