// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/services/dag/result.h"
#include "stack/error.h"

namespace rockhopper::apps::dag_node {

enum class Verb : std::uint8_t { get, create, put, update, erase, resize, add };
[[nodiscard]] std::string_view to_string(Verb verb);
[[nodiscard]] std::optional<Verb> parse_verb(std::string_view name);

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

/// For programs: "not_found". For people, dag::to_string().
[[nodiscard]] std::string_view name_of(dag::Status status);

[[nodiscard]] nlohmann::json to_json(const RecordTask& task, const RecordResult& result);
/// One line for people.
[[nodiscard]] std::string to_line(const RecordTask& task, const RecordResult& result);
/// Fails unless it is a key that a record can have.
[[nodiscard]] Expected<void> check_key(std::string_view key);

}  // namespace rockhopper::apps::dag_node
