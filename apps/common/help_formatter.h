// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace CLI {
class FormatterBase;
}  // namespace CLI

namespace rockhopper::apps {

/// Help as in a manual page: an option's names and argument on one line, what it does below,
/// wrapped to the width of a terminal.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> make_help_formatter();

/// `text` in lines of at most `width` columns, each behind `indent` spaces and with a line end.
[[nodiscard]] std::string wrap(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace rockhopper::apps
