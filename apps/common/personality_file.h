// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/node/personality/personality.h"
#include "stack/error.h"

namespace rockhopper::apps {

/// A device as its file describes it: knobs that differ from this endpoint's own way, each with the
/// source of its value, which may be "to be measured".
struct PersonalityFile {
  struct Entry {
    std::string knob;
    std::string value;
    std::string source;
  };
  std::string name;
  std::string device;
  std::vector<Entry> entries;
  Personality personality;
};

/// Reads the text of a file.
[[nodiscard]] Expected<PersonalityFile> read_personality(std::string_view json_text);

/// Those that come with the programs: {name: text of the file}, in the order of names.
[[nodiscard]] const std::vector<std::pair<std::string_view, std::string_view>>& personalities();

/// Reads "mlx5-cx5", "./mine.json", either with knobs behind it as "e810,credits=static:4", or
/// knobs alone.
[[nodiscard]] Expected<Personality> parse_personality(std::string_view text);

}  // namespace rockhopper::apps
