// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stack/error.h"

namespace rockhopper::apps {

/// Reads a document that people write: comments are allowed. Fails with one line if it is no JSON,
/// or if an object has a member twice, of which one would silently not count.
[[nodiscard]] Expected<nlohmann::json> parse_json(std::string_view text);

/// The whole file.
[[nodiscard]] Expected<std::string> read_text_file(const std::string& path);

/// The first error of a document that is read; the rest is read as if nothing had happened.
class JsonErrors {
 public:
  void add(const std::string& path, const std::string& what);
  [[nodiscard]] bool any() const { return error_.has_value(); }
  [[nodiscard]] Error first() const { return *error_; }

 private:
  std::optional<Error> error_;
};

/// An object of a JSON document as one that knows its path, so that errors name it, and which of
/// its members have been read. Quantities are texts with units (stack/quantity.h), bytes may be
/// numbers. Members without a default are required.
class JsonObject {
 public:
  /// Both must outlive it. `path` is empty for the whole document.
  JsonObject(const nlohmann::json& value, std::string path, JsonErrors& errors);

  [[nodiscard]] bool has(const char* key) const;
  [[nodiscard]] std::string text(const char* key, const std::optional<std::string>& otherwise = {});
  [[nodiscard]] bool flag(const char* key, std::optional<bool> otherwise = {});
  [[nodiscard]] std::uint64_t number(const char* key, std::uint64_t least, std::uint64_t most,
                                     std::optional<std::uint64_t> otherwise = {});
  [[nodiscard]] double real(const char* key, double least, double most,
                            std::optional<double> otherwise = {});
  [[nodiscard]] std::uint64_t time_ns(const char* key, std::optional<std::uint64_t> otherwise = {});
  [[nodiscard]] std::uint64_t rate(const char* key, std::optional<std::uint64_t> otherwise = {});
  [[nodiscard]] std::uint64_t bytes(const char* key, std::optional<std::uint64_t> otherwise = {});
  /// One of a few words.
  template <typename T>
  [[nodiscard]] T choice(const char* key, std::span<const std::pair<std::string_view, T>> words,
                         std::optional<T> otherwise = {});
  /// Nothing if it is missing.
  [[nodiscard]] std::optional<JsonObject> object(const char* key);
  /// Empty if it is missing.
  [[nodiscard]] std::vector<JsonObject> objects(const char* key);
  /// A list of texts; empty if it is missing.
  [[nodiscard]] std::vector<std::string> texts(const char* key);
  /// A list of whole numbers that are not negative; empty if it is missing.
  [[nodiscard]] std::vector<std::uint64_t> numbers(const char* key);

  /// Of the object, or of one of its members.
  void fail(const std::string& what) { errors_.add(path_, what); }
  void fail(const char* key, const std::string& what) { errors_.add(path_of(key), what); }
  /// What has not been read is an error: a member that nobody knows.
  void finish();

 private:
  [[nodiscard]] std::string path_of(const char* key) const;
  /// Null if it is missing.
  [[nodiscard]] const nlohmann::json* find(const char* key, bool required);
  /// The same of a member that may be missing; null and an error if it is no list.
  [[nodiscard]] const nlohmann::json* find_list(const char* key);
  /// The items of a list; one that is not `is_good` is an error and left out.
  template <typename T, typename IsGood>
  [[nodiscard]] std::vector<T> items(const char* key, const char* expected, IsGood is_good);
  template <typename Parse>
  [[nodiscard]] std::uint64_t quantity(const char* key, std::optional<std::uint64_t> otherwise,
                                       const char* expected, Parse parse);

  const nlohmann::json& value_;
  std::string path_;
  JsonErrors& errors_;
  std::set<std::string> known_;
};

template <typename T>
T JsonObject::choice(const char* key, std::span<const std::pair<std::string_view, T>> words,
                     std::optional<T> otherwise) {
  const std::string word = text(key, otherwise ? std::optional<std::string>("") : std::nullopt);
  if (otherwise && word.empty()) return *otherwise;
  std::string all;
  for (const auto& [name, value] : words) {
    if (word == name) return value;
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  fail(key, "expected is one of: " + all);
  return words[0].second;
}

}  // namespace rockhopper::apps
