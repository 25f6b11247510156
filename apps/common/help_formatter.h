// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <vector>

#include "apps/common/cli.h"

namespace rockhopper::apps {

/// Help as in a manual page: an option's names and argument on one line, what it does below,
/// wrapped to the width of a terminal.
class HelpFormatter final : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_usage(const CLI::App* app, std::string name) const override;
  [[nodiscard]] std::string make_description(const CLI::App* app) const override;
  [[nodiscard]] std::string make_option(const CLI::Option* option, bool positional) const override;
  [[nodiscard]] std::string make_group(std::string group, bool positional,
                                       std::vector<const CLI::Option*> options) const override;
  [[nodiscard]] std::string make_subcommands(const CLI::App* app,
                                             CLI::AppFormatMode mode) const override;
};

/// `text` in lines of at most `width` columns, each behind `indent` spaces and with a line end.
[[nodiscard]] std::string wrap(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace rockhopper::apps
