// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/json_document.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace rockhopper::apps {
namespace {

using nlohmann::json;

/// Follows the parser and remembers the first member that comes again.
class RepeatedMembers {
 public:
  bool on_event(json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        levels_.push_back({.is_array = event == json::parse_event_t::array_start});
        break;
      case json::parse_event_t::key:
        on_key(parsed.get_ref<const std::string&>());
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        levels_.pop_back();
        on_value();
        break;
      case json::parse_event_t::value:
        on_value();
        break;
    }
    return true;
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

  void on_key(const std::string& key) {
    Level& level = levels_.back();
    level.key = key;
    if (!level.keys.insert(key).second && first_.empty()) first_ = path();
  }

  void on_value() {
    if (!levels_.empty()) ++levels_.back().index;
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

Expected<json> parse_json(std::string_view text) {
  RepeatedMembers repeated;
  json document;
  try {
    document = json::parse(
        text,
        [&](int, json::parse_event_t event, json& parsed) {
          return repeated.on_event(event, parsed);
        },
        true, true);
  } catch (const json::parse_error& error) {
    return fail(ErrorCode::invalid_argument, "no JSON: {}", error.what());
  }
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

}  // namespace rockhopper::apps
