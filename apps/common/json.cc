// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/json.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stack/quantity.h"

namespace rockhopper::apps {
namespace {

/// Reads a document and remembers the first member that comes again. By itself, as the parser's own
/// callback takes a time that grows with the square of a list's length.
class RepeatedMembers final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return on_value(); }
  bool boolean(bool) override { return on_value(); }
  bool number_integer(nlohmann::json::number_integer_t) override { return on_value(); }
  bool number_unsigned(nlohmann::json::number_unsigned_t) override { return on_value(); }
  bool number_float(nlohmann::json::number_float_t, const std::string&) override {
    return on_value();
  }
  bool string(std::string&) override { return on_value(); }
  bool binary(nlohmann::json::binary_t&) override { return on_value(); }
  bool start_object(std::size_t) override { return begin({.is_array = false}); }
  bool start_array(std::size_t) override { return begin({.is_array = true}); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(std::string& key) override {
    Level& level = levels_.back();
    level.key = key;
    if (!level.keys.insert(key).second && first_.empty()) first_ = path();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

  /// Empty: there is none.
  [[nodiscard]] const std::string& first() const { return first_; }

 private:
  struct Level {
    bool is_array = false;
    std::size_t index = 0;  ///< of the element that comes
    std::string key{};      ///< the last one
    std::set<std::string> keys{};
  };

  bool begin(const Level& level) {
    levels_.push_back(level);
    return true;
  }

  bool end() {
    levels_.pop_back();
    return on_value();
  }

  bool on_value() {
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }

  [[nodiscard]] std::string path() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.is_array) {
        path += fmt::format("[{}]", level.index);
      } else {
        path += (path.empty() ? "" : ".") + level.key;
      }
    }
    return path;
  }

  std::vector<Level> levels_;
  std::string first_;
};

}  // namespace

Expected<nlohmann::json> parse_json(std::string_view text) {
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(text, nullptr, true, true);
  } catch (const nlohmann::json::exception& error) {  // a number that is too large is another one's
    return fail(ErrorCode::invalid_argument, "no JSON: {}", error.what());
  }
  RepeatedMembers repeated;
  (void)nlohmann::json::sax_parse(text, &repeated, nlohmann::json::input_format_t::json, true,
                                  true);
  if (!repeated.first().empty()) {
    return fail(ErrorCode::invalid_argument, "{}: is there twice", repeated.first());
  }
  return document;
}

Expected<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  // An empty file gives no character, which is no error.
  if (!file || (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf())) ||
      file.bad()) {
    return fail(ErrorCode::invalid_argument, "{} cannot be read: {}", path, std::strerror(errno));
  }
  return text.str();
}

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

bool JsonObject::flag(const char* key, std::optional<bool> otherwise) {
  const nlohmann::json* value = find(key, !otherwise);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  if (value != nullptr) fail(key, "true or false is expected");
  return otherwise.value_or(false);
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

double JsonObject::real(const char* key, double least, double most,
                        std::optional<double> otherwise) {
  const nlohmann::json* value = find(key, !otherwise);
  if (value == nullptr) return otherwise.value_or(least);
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  fail(key, fmt::format("a number from {} to {} is expected", least, most));
  return otherwise.value_or(least);
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

const nlohmann::json* JsonObject::find_list(const char* key) {
  const nlohmann::json* value = find(key, false);
  if (value == nullptr || value->is_array()) return value;
  fail(key, "a list is expected");
  return nullptr;
}

std::vector<JsonObject> JsonObject::objects(const char* key) {
  std::vector<JsonObject> result;
  const nlohmann::json* value = find_list(key);
  if (value == nullptr) return result;
  for (std::size_t i = 0; i < value->size(); ++i) {
    result.emplace_back(value->at(i), fmt::format("{}[{}]", path_of(key), i), errors_);
  }
  return result;
}

template <typename T, typename IsGood>
std::vector<T> JsonObject::items(const char* key, const char* expected, IsGood is_good) {
  std::vector<T> result;
  const nlohmann::json* value = find_list(key);
  if (value == nullptr) return result;
  for (std::size_t i = 0; i < value->size(); ++i) {
    if (is_good(value->at(i))) {
      result.push_back(value->at(i).get<T>());
    } else {
      errors_.add(fmt::format("{}[{}]", path_of(key), i), expected);
    }
  }
  return result;
}

std::vector<std::string> JsonObject::texts(const char* key) {
  return items<std::string>(key, "a text is expected",
                            [](const nlohmann::json& item) { return item.is_string(); });
}

std::vector<std::uint64_t> JsonObject::numbers(const char* key) {
  return items<std::uint64_t>(key, "a whole number is expected",
                              [](const nlohmann::json& item) { return item.is_number_unsigned(); });
}

void JsonObject::finish() {
  if (!value_.is_object()) return;
  for (const auto& [key, value] : value_.items()) {
    if (known_.contains(key)) continue;
    std::string names;
    for (const std::string& name : known_) {
      names += (names.empty() ? "" : ", ") + name;
    }
    fail(key.c_str(), "is not known here; known are: " + names);
  }
}

}  // namespace rockhopper::apps
