// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/json_object.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stack/quantity.h"

namespace rockhopper::apps {

void JsonErrors::add(const std::string& path, const std::string& what) {
  if (error_) return;
  error_ = Error{ErrorCode::invalid_argument,
                 fmt::format("{}: {}", path.empty() ? "the document" : path, what)};
}

JsonObject::JsonObject(const nlohmann::json& value, std::string path, JsonErrors& errors)
    : value_(value), path_(std::move(path)), errors_(errors) {
  if (!value_.is_object()) errors_.add(path_, "an object is expected");
}

std::string JsonObject::path_of(const char* key) const {
  return path_.empty() ? key : path_ + "." + key;
}

bool JsonObject::has(const char* key) const { return value_.is_object() && value_.contains(key); }

const nlohmann::json* JsonObject::find(const char* key, bool required) {
  known_.insert(key);
  if (has(key)) return &value_.at(key);
  if (required) fail(key, "is missing");
  return nullptr;
}

std::string JsonObject::text(const char* key, const std::optional<std::string>& otherwise) {
  const nlohmann::json* value = find(key, !otherwise);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  if (value != nullptr) fail(key, "a text is expected");
  return otherwise.value_or("");
}

bool JsonObject::flag(const char* key, bool otherwise) {
  const nlohmann::json* value = find(key, false);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  if (value != nullptr) fail(key, "true or false is expected");
  return otherwise;
}

std::uint64_t JsonObject::number(const char* key, std::uint64_t least, std::uint64_t most,
                                 std::optional<std::uint64_t> otherwise) {
  const nlohmann::json* value = find(key, !otherwise);
  if (value == nullptr) return otherwise.value_or(least);
  if (value->is_number_unsigned()) {
    const auto number = value->get<std::uint64_t>();
    if (number >= least && number <= most) return number;
  }
  fail(key, fmt::format("a whole number from {} to {} is expected", least, most));
  return otherwise.value_or(least);
}

double JsonObject::real(const char* key, double least, double most, double otherwise) {
  const nlohmann::json* value = find(key, false);
  if (value == nullptr) return otherwise;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  fail(key, fmt::format("a number from {} to {} is expected", least, most));
  return otherwise;
}

template <typename Parse>
std::uint64_t JsonObject::quantity(const char* key, std::optional<std::uint64_t> otherwise,
                                   const char* expected, Parse parse) {
  const nlohmann::json* value = find(key, !otherwise);
  if (value == nullptr) return otherwise.value_or(0);
  std::uint64_t result = 0;
  if (value->is_string() && parse(value->get_ref<const std::string&>(), result)) return result;
  fail(key, fmt::format("{} is expected", expected));
  return otherwise.value_or(0);
}

std::uint64_t JsonObject::time_ns(const char* key, std::optional<std::uint64_t> otherwise) {
  return quantity(key, otherwise, "a time as \"250ns\", \"10us\" or \"1.5s\"", &stack::parse_time);
}

std::uint64_t JsonObject::rate(const char* key, std::optional<std::uint64_t> otherwise) {
  return quantity(key, otherwise, "a rate as \"100Mbit\" or \"2.5Gbit\"", &stack::parse_rate);
}

std::uint64_t JsonObject::bytes(const char* key, std::optional<std::uint64_t> otherwise) {
  if (has(key) && value_.at(key).is_number_unsigned()) {
    return number(key, 0, std::uint64_t{1} << 40, otherwise);
  }
  return quantity(key, otherwise, "a number of bytes, or a text as \"64KiB\" or \"1.5MB\"",
                  &stack::parse_bytes);
}

std::optional<JsonObject> JsonObject::object(const char* key) {
  const nlohmann::json* value = find(key, false);
  if (value == nullptr) return std::nullopt;
  return JsonObject(*value, path_of(key), errors_);
}

std::vector<JsonObject> JsonObject::objects(const char* key) {
  std::vector<JsonObject> result;
  const nlohmann::json* value = find(key, false);
  if (value == nullptr) return result;
  if (!value->is_array()) {
    fail(key, "a list is expected");
    return result;
  }
  for (std::size_t i = 0; i < value->size(); ++i) {
    result.emplace_back(value->at(i), fmt::format("{}[{}]", path_of(key), i), errors_);
  }
  return result;
}

std::vector<std::string> JsonObject::texts(const char* key) {
  std::vector<std::string> result;
  const nlohmann::json* value = find(key, false);
  if (value == nullptr) return result;
  if (!value->is_array()) {
    fail(key, "a list is expected");
    return result;
  }
  for (std::size_t i = 0; i < value->size(); ++i) {
    if (value->at(i).is_string()) {
      result.push_back(value->at(i).get<std::string>());
    } else {
      errors_.add(fmt::format("{}[{}]", path_of(key), i), "a text is expected");
    }
  }
  return result;
}

void JsonObject::finish() {
  if (!value_.is_object()) return;
  for (const auto& [key, value] : value_.items()) {
    if (known_.contains(key)) continue;
    std::string names;
    for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
    fail(key.c_str(), "is not known here; known are: " + names);
  }
}

}  // namespace rockhopper::apps
