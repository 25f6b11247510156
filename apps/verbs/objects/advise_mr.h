// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

namespace rockhopper::verbs {

/// As ibv_advise_mr: brings the pages in.
[[nodiscard]] int advise_mr(ibv_pd* verbs, ibv_advise_mr_advice advice, std::uint32_t flags,
                            ibv_sge* list, std::uint32_t count);

}  // namespace rockhopper::verbs
