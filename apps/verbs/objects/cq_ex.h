// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/verbs/objects/cq.h"

namespace rockhopper::verbs {

/// Gives the queue the functions of ibv_cq_ex, with those that read what `wc_flags` asks for (enum
/// ibv_create_cq_wc_flags).
void set_operations(Cq& cq, std::uint64_t wc_flags);

}  // namespace rockhopper::verbs
