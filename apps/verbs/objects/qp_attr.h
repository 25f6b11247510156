// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

namespace rockhopper::verbs {

// Verbs.
[[nodiscard]] int modify_qp(ibv_qp* verbs, ibv_qp_attr* attributes, int mask);
[[nodiscard]] int query_qp(ibv_qp* verbs, ibv_qp_attr* attributes, int mask,
                           ibv_qp_init_attr* init);
[[nodiscard]] int query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t flags);

}  // namespace rockhopper::verbs
