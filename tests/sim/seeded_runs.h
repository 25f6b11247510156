// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

[[nodiscard]] PoolSet& pools();
/// The same packets in chains of small mbufs, on the way out and in.
[[nodiscard]] PoolSet& small_pools();
/// Less than what is under way at times.
[[nodiscard]] PoolSet& scarce_pools();

/// What the environment's variable says, or that.
[[nodiscard]] std::uint64_t number_or(const char* variable, std::uint64_t otherwise);
/// ROCKHOPPER_SEEDS, or that; ROCKHOPPER_SEEDS=20% is a fifth of that.
[[nodiscard]] std::uint64_t seeds_or(std::uint64_t otherwise);
/// ROCKHOPPER_SEED asks for one run: hazards need not be met in it.
[[nodiscard]] bool single_seed();
/// A hazard that a profile is about must have been met, or the profile proves nothing.
void expect_met(std::uint64_t count);

/// A path that loses, damages, repeats and reorders.
inline const NetworkFaults kBadPath{.rates{.loss = 0.02,
                                           .corrupt = 0.005,
                                           .duplicate = 0.02,
                                           .duplicate_max_ns = 1'000'000,
                                           .reorder = 0.03,
                                           .reorder_max_ns = 200'000}};

/// Calls `run` with `share` thousandths of `seeds` seeds, or with the one of ROCKHOPPER_SEED. The
/// first text that is not empty fails the test, with what repeats it. Returns the seconds it took.
double run_seeds(const char* profile, std::uint64_t seeds, std::uint64_t share,
                 const std::function<std::string(std::uint64_t seed)>& run);

}  // namespace rockhopper::sim
