// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "apps/rh_stats/program.h"
#include "apps/rh_stats/telemetry_client.h"

namespace rockhopper::apps::stats {

/// A program's counters as a table, those that are 0 too if `zeros`; with rates since `before`,
/// which may be nullptr.
void print_counters(std::FILE* out, const Program& program, const Snapshot& now,
                    const Snapshot* before, bool zeros);

/// The same as an object: "counters", and "rates" per second since `before`.
[[nodiscard]] Json counters_to_json(const Program& program, const Snapshot& now,
                                    const Snapshot* before);

/// What a program's counters count, as a table.
void print_texts(std::FILE* out, const Program& program, const GroupTexts& texts);

/// The same as an object: "texts", by group and counter.
[[nodiscard]] Json texts_to_json(const Program& program, const GroupTexts& texts);

/// Leaves the counters whose name matches a pattern of the shell.
void keep_matching(GroupTexts& texts, const std::string& pattern);

/// A program without its counters.
[[nodiscard]] Json program_to_json(const Program& program);

/// Change a second of one counter; 0 if `before` does not have it.
[[nodiscard]] double rate_of(const Snapshot& now, const Snapshot& before, const std::string& group,
                             const std::string& name, std::uint64_t value);

}  // namespace rockhopper::apps::stats
