// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <string_view>

/// What all our SVG documents are made of. The same calls give the same bytes.
namespace rockhopper::apps {

/// The beginning of a document of so many pixels, white.
[[nodiscard]] std::string svg_begin(double width, double height);
inline constexpr const char* kSvgEnd = "</svg>\n";

/// A text as the content of an element, or of an attribute in quotation marks.
[[nodiscard]] std::string svg_escape(std::string_view text);

/// Appends a line of text at a point; `anchor` is "start", "middle" or "end".
void svg_text(std::string& out, double x, double y, std::string_view anchor, std::string_view text);

/// The next larger of 1, 2 and 5 times a power of ten that divides `range` into at most `steps`.
[[nodiscard]] double round_step(double range, unsigned steps);

}  // namespace rockhopper::apps
