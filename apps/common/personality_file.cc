// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/personality_file.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/common/json.h"

namespace rockhopper::apps {
namespace {

Expected<PersonalityFile> read_named(std::string_view name) {
  if (name.find('/') != std::string_view::npos || name.ends_with(".json")) {
    ROCKHOPPER_TRY(auto text, read_text_file(std::string(name)));
    return read_personality(text);
  }
  std::vector<std::string_view> names;
  for (const auto& [known, text] : personalities()) {
    if (known == name) return read_personality(text);
    names.push_back(known);
  }
  return fail(ErrorCode::invalid_argument, "there is no such personality, but {}; or name a .json",
              fmt::join(names, ", "));
}

}  // namespace

Expected<PersonalityFile> read_personality(std::string_view json_text) {
  ROCKHOPPER_TRY(auto document, parse_json(json_text));
  JsonErrors errors;
  JsonObject root(document, "", errors);
  PersonalityFile file;
  file.name = root.text("name");
  file.device = root.text("device", "");
  if (auto knobs = root.object("knobs")) {
    for (const PersonalityKnob& known : personality_knobs()) {
      auto knob = knobs->object(known.name);
      if (!knob) continue;
      const std::string value = knob->text("value");
      const std::string source = knob->text("source");
      if (source.empty()) knob->fail("source", "say where it is known from, or \"to be measured\"");
      knob->finish();
      if (auto set = set_knob(file.personality, known.name, value); !set) {
        knob->fail("value", set.error().message);
      }
      file.entries.push_back({known.name, value, source});
    }
    knobs->finish();
  } else {
    root.fail("knobs", "there are none");
  }
  root.finish();
  if (errors.any()) return tl::make_unexpected(errors.first());
  return file;
}

Expected<Personality> parse_personality(std::string_view text) {
  Personality personality;
  for (bool first = true; first || !text.empty(); first = false) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = item.find('=');
    if (equals != std::string_view::npos) {
      ROCKHOPPER_TRY(set_knob(personality, item.substr(0, equals), item.substr(equals + 1)));
    } else if (first) {
      ROCKHOPPER_TRY(auto file, read_named(item));
      personality = file.personality;
    } else {
      return fail(ErrorCode::invalid_argument, "\"{}\" is no knob with a value", item);
    }
  }
  return personality;
}

}  // namespace rockhopper::apps
