// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/verbs/cm/agent.h"

namespace rockhopper::verbs::cm {

/// More bytes no option has: six path records.
inline constexpr std::size_t kOptionMax = 6 * sizeof(ib_path_rec_data);

/// As rdma_set_option(). Returns 0 or an errno. In a Section.
[[nodiscard]] int set_option_of(Agent& agent, Identifier& identifier, std::uint32_t level,
                                std::uint32_t name, std::span<const std::byte> value);

}  // namespace rockhopper::verbs::cm
