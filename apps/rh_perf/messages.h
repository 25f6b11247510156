// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/common/fields.h"
#include "apps/common/measuring.h"
#include "apps/rh_perf/backend.h"
#include "apps/rh_perf/layout.h"
#include "apps/rh_perf/workload.h"
#include "stack/error.h"

namespace rockhopper::apps::perf {

/// The version of the messages in apps/common/measuring.h.
inline constexpr std::uint64_t kProtocolVersion = 4;
using PerfGreeting = Greeting<Agreement, Side, kProtocolVersion>;

/// The largest numbers that a peer may ask for.
inline constexpr std::uint16_t kQpsMax = 32'767;
inline constexpr std::uint32_t kDepthMax = 1u << 15;

/// Checks a peer's end against what has been agreed on.
[[nodiscard]] Expected<void> check_side(const Side& side, const Agreement& agreement,
                                        const Layout& layout);
[[nodiscard]] Expected<RunSpec> run_spec_from_json(const nlohmann::json& json,
                                                   const Agreement& agreement);
/// A "stopped" message of a bidirectional run has the server's part of it.
struct BothWays {
  Measurement measurement{};
  void describe(Fields& fields) { fields.object("measurement", measurement); }
};
/// "words" of a "stopped" message: one for each queue pair; of locks as check_lock_words() has
/// them.
[[nodiscard]] Expected<std::vector<std::uint64_t>> words_from_json(const nlohmann::json& json,
                                                                   const Agreement& agreement);
/// "locks" of a "stopped" message.
[[nodiscard]] Expected<LockStatistics> lock_statistics_from_json(const nlohmann::json& json);

}  // namespace rockhopper::apps::perf
