// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::test {

/// The seed of a randomised test: the environment's ROCKHOPPER_SEED, which repeats a run, else
/// one drawn once a process. The first call prints it.
[[nodiscard]] std::uint64_t seed();

}  // namespace rockhopper::test
