// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rockhopper::wire {

#if defined(__x86_64__)
[[gnu::target("avx")]] inline void clear_upper_parts() { _mm256_zeroupper(); }
inline const bool kHasUpperParts = __builtin_cpu_supports("avx") != 0;
#endif

/// To be called behind functions of ISA-L that were given 256 bytes or more. Where the processor
/// has wide vectors they leave the upper parts of its vector registers in use, and any SSE code
/// behind them runs slower (docs/performance.md).
inline void leave_wide_vectors() {
#if defined(__x86_64__)
  if (kHasUpperParts) clear_upper_parts();
#endif
}

}  // namespace rockhopper::wire
