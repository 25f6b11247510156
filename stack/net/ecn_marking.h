// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

#include "stack/error.h"

namespace rockhopper::stack::net {

/// When a queue marks packets: never up to `kmin_bytes`, always from `kmax_bytes` on, between them
/// with a probability that rises from 0 to `pmax`: the RED curve on the queue's present length that
/// DCQCN asks of switches (Zhu et al., SIGCOMM 2015, section 3.1, figure 5).
struct EcnMarking {
  std::uint64_t kmin_bytes = 0;
  std::uint64_t kmax_bytes = 0;  ///< 0: marks nothing
  double pmax = 0;               ///< 0 to 1

  [[nodiscard]] bool enabled() const { return kmax_bytes != 0; }
  [[nodiscard]] double probability(std::uint64_t queue_bytes) const {
    if (queue_bytes <= kmin_bytes) return 0;
    if (queue_bytes >= kmax_bytes) return 1;
    return pmax * static_cast<double>(queue_bytes - kmin_bytes) /
           static_cast<double>(kmax_bytes - kmin_bytes);
  }
};

/// Reads "KMIN,KMAX,PMAX" as "5KiB,200KiB,1%": kmin is below kmax, or equal to it for a threshold
/// without a slope.
[[nodiscard]] Expected<EcnMarking> parse_ecn_marking(std::string_view text);

}  // namespace rockhopper::stack::net
