// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/record_task.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/json_bytes.h"
#include "apps/services/dag/graph/task.h"
#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {

nlohmann::json to_json(const RecordTask& task, const RecordResult& result) {
  const JsonBytes key = to_json_bytes(std::as_bytes(std::span(task.key)));
  nlohmann::json json{{"program", "rh-dag"},
                      {"verb", name_of(task.verb)},
                      {"key", key.value},
                      {"status", name_of(result.status)}};
  if (result.status != dag::Status::ok) return json;
  json["incarnation"] = result.version.incarnation;
  json["version"] = result.version.version;
  if (task.verb == Verb::add) json["value"] = result.value;
  if (task.verb != Verb::get) return json;
  json["control"] = result.control;
  json["bytes"] = result.data.size();
  JsonBytes data = to_json_bytes(result.data);
  json[data.name] = std::move(data.value);
  return json;
}

std::string to_line(const RecordTask& task, const RecordResult& result) {
  const std::string begin = fmt::format("{} {}: ", name_of(task.verb), dag::key_text(task.key));
  if (result.status != dag::Status::ok) return begin + std::string(dag::to_string(result.status));
  switch (task.verb) {
    case Verb::get:
      return begin + fmt::format("version {}, {} bytes: {:?}", result.version.version,
                                 result.data.size(), as_text(result.data));
    case Verb::put:
    case Verb::update:
      return begin + fmt::format("version {}", result.version.version);
    case Verb::add:
      return begin + fmt::format("was {}", result.value);
    case Verb::create:
    case Verb::erase:
    case Verb::resize:
      break;
  }
  return begin + "done";
}

Expected<void> check_key(std::string_view key) {
  if (!key.empty() && key.size() <= dag::kKeyMax) return {};
  return fail(ErrorCode::invalid_argument, "a key has 1 to {} bytes, not {}", dag::kKeyMax,
              key.size());
}

}  // namespace rockhopper::apps::dag_node
