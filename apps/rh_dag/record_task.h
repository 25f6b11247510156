// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/names.h"
#include "apps/services/dag/result.h"
#include "stack/error.h"

namespace rockhopper::dag {

// For programs. For people there is to_string().
constexpr auto names_of(Status) {
  using apps::Names;
  return std::array<Names, kStatuses>{{{"ok"},
                                       {"not_found"},
                                       {"exists"},
                                       {"exhausted"},
                                       {"invalid"},
                                       {"too_long"},
                                       {"version_mismatch"},
                                       {"damaged"},
                                       {"timed_out"},
                                       {"canceled"},
                                       {"contended"},
                                       {"unreachable"},
                                       {"outcome_unknown"}}};
}

}  // namespace rockhopper::dag

namespace rockhopper::apps::dag_node {

enum class Verb : std::uint8_t { get, create, put, update, erase, resize, add };
constexpr auto names_of(Verb) {
  return std::array{Names{"get"},    Names{"create"}, Names{"put"}, Names{"update"},
                    Names{"delete"}, Names{"resize"}, Names{"add"}};
}

/// What is to be done with one record.
struct RecordTask {
  Verb verb = Verb::get;
  std::string key;
  std::vector<std::byte> data{};  ///< create, put, update
  std::uint32_t capacity = 0;     ///< create, put, resize: at least the data's length otherwise
  unsigned word = 0;              ///< add: which control word
  std::uint64_t value = 0;        ///< add
};

/// What it has come to.
struct RecordResult {
  dag::Status status = dag::Status::ok;
  dag::RecordVersion version{};
  dag::ControlWords control{};
  std::uint64_t value = 0;        ///< add: what the word held before
  std::vector<std::byte> data{};  ///< get
};

[[nodiscard]] nlohmann::json to_json(const RecordTask& task, const RecordResult& result);
/// One line for people.
[[nodiscard]] std::string to_line(const RecordTask& task, const RecordResult& result);
/// Fails unless it is a key that a record can have.
[[nodiscard]] Expected<void> check_key(std::string_view key);

}  // namespace rockhopper::apps::dag_node
