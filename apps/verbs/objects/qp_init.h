// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <infiniband/verbs.h>

#include "roce/queue_pair.h"

namespace rockhopper::verbs {

/// As ibv_query_qp tells it.
[[nodiscard]] ibv_qp_cap capabilities_of(const roce::QpInit& init);

}  // namespace rockhopper::verbs
