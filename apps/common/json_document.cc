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

}  // namespace rockhopper::apps
