// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/verbs/objects/qp.h"

namespace rockhopper::verbs {

/// The requests (enum ibv_qp_create_send_ops_flags) that queue pairs of the type can have by
/// ibv_wr_*.
[[nodiscard]] std::uint64_t send_operations(ibv_qp_type type);

/// Gives the queue pair, which has a SendBatch, the functions of ibv_qp_ex.
void set_operations(Qp& qp);

}  // namespace rockhopper::verbs
