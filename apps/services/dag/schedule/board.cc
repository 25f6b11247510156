// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/board.h"

#include <algorithm>
#include <iterator>

namespace rockhopper::dag {

std::string_view to_string(RunPhase phase) {
  switch (phase) {
    case RunPhase::none:
      return "none";
    case RunPhase::checking:
      return "checking";
    case RunPhase::refused:
      return "refused";
    case RunPhase::running:
      return "running";
    case RunPhase::complete:
      return "complete";
    case RunPhase::failed:
      return "failed";
    case RunPhase::canceled:
      return "canceled";
    case RunPhase::ending:
      return "ending";
  }
  return "unknown";
}

std::string_view text_of(std::span<const char> zero_padded) {
  const auto end = std::find(zero_padded.begin(), zero_padded.end(), '\0');
  return {zero_padded.data(), static_cast<std::size_t>(std::distance(zero_padded.begin(), end))};
}

}  // namespace rockhopper::dag
