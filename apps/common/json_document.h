// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "stack/error.h"

namespace rockhopper::apps {

/// Reads a document that people write: comments are allowed. Fails with one line if it is no JSON,
/// or if an object has a member twice, of which one would silently not count.
[[nodiscard]] Expected<nlohmann::json> parse_json(std::string_view text);

/// The whole file.
[[nodiscard]] Expected<std::string> read_text_file(const std::string& path);

}  // namespace rockhopper::apps
