// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_perf/backend.h"
#include "apps/rh_perf/workload.h"
#include "stack/error.h"

namespace rockhopper::apps::perf {

/// The messages of the TCP connection: one JSON object a line. The client speaks first.
///
///   client {"hello": {"version": 1, "agreement": {...}, "side": {...}}}
///   server {"welcome": {"agreement": {...}, "side": {...}}}      its queue pairs are in RTS
///   client {"start": {run}}      server {"started": {}}          receives posted, memory ready
///   client {"stop": {}}          server {"stopped": {...}}       data checked
///   client {"end": {"results": [...]}}   server {"ended": {}}
///
/// Either end sends {"error": "why"} instead when it gives up.
inline constexpr int kProtocolVersion = 3;

/// The largest numbers that a peer may ask for.
inline constexpr std::uint16_t kQpsMax = 32'767;
inline constexpr std::uint32_t kDepthMax = 1u << 15;

[[nodiscard]] nlohmann::json to_json(const Agreement& agreement);
[[nodiscard]] nlohmann::json to_json(const Side& side);
[[nodiscard]] nlohmann::json to_json(const RunSpec& spec);
[[nodiscard]] nlohmann::json to_json(const Measurement& measurement);

/// Nothing of what a peer sends is taken on trust: types, ranges and lengths are checked.
[[nodiscard]] Expected<Agreement> agreement_from_json(const nlohmann::json& json);
/// `agreement` says how many queue pairs there must be.
[[nodiscard]] Expected<Side> side_from_json(const nlohmann::json& json, const Agreement& agreement);
[[nodiscard]] Expected<RunSpec> run_spec_from_json(const nlohmann::json& json,
                                                   const Agreement& agreement);
[[nodiscard]] Expected<Measurement> measurement_from_json(const nlohmann::json& json);
/// "words" of a "stopped" message: one for each queue pair; of locks as check_lock_words() has
/// them.
[[nodiscard]] Expected<std::vector<std::uint64_t>> words_from_json(const nlohmann::json& json,
                                                                   const Agreement& agreement);
/// "locks" of a "stopped" message.
[[nodiscard]] Expected<LockStatistics> lock_statistics_from_json(const nlohmann::json& json);

}  // namespace rockhopper::apps::perf
