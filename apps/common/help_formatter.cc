// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/help_formatter.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <fmt/format.h>

namespace rockhopper::apps {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kNameIndent = 2;
constexpr std::size_t kTextIndent = 6;

/// Where CLI11 has put the validators behind the type name: the first colon that is not between
/// square brackets, as in "[PORT:]SPEC".
std::size_t validators_at(const std::string& type) {
  int depth = 0;
  for (std::size_t at = 0; at < type.size(); ++at) {
    if (type[at] == '[') ++depth;
    if (type[at] == ']') --depth;
    if (type[at] == ':' && depth == 0) return at;
  }
  return std::string::npos;
}

/// The values that an option takes, from its validators: "{bw,lat}", "[1 - 32768]". Empty when the
/// type name says it all.
std::string values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t colon = validators_at(type);
  if (colon == std::string::npos) return {};
  std::string values = type.substr(colon + 1);
  const std::size_t range = values.find(" in [");
  if (range != std::string::npos) values = values.substr(range + 4);
  return values == "POSITIVE" ? "above 0" : values;
}

std::string argument_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  const std::string type = option.get_type_name();
  std::string argument = type.substr(0, validators_at(type));
  if (argument == "UINT" || argument == "INT") argument = "N";
  if (argument == "TEXT") argument = "NAME";
  return " " + argument;
}

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

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = fmt::format("USAGE\n  {} {}", name,
                                  app->get_subcommands({}).empty() ? "[options]" : "COMMAND");
  for (const CLI::Option* option :
       app->get_options([](const CLI::Option* item) { return item->get_positional(); })) {
    const std::string argument = option->get_name(true);
    usage += option->get_required() ? ' ' + argument : " [" + argument + ']';
  }
  return usage + '\n';
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrap(app->get_description(), 0, kWidth) + '\n';
}

std::string HelpFormatter::make_group(std::string group, bool positional,
                                      std::vector<const CLI::Option*> options) const {
  std::string text = '\n' + group + '\n';
  for (const CLI::Option* option : options) {
    text += make_option(option, positional);
  }
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool positional) const {
  std::string head = option->get_name(positional, !positional);
  for (std::size_t at = head.find(','); at != std::string::npos; at = head.find(',', at + 2)) {
    head.insert(at + 1, " ");
  }
  // CLI11 says so behind the name of a flag that takes another one back.
  constexpr std::string_view kTakesBack = "{false}";
  for (std::size_t at = head.find(kTakesBack); at != std::string::npos;
       at = head.find(kTakesBack)) {
    head.erase(at, kTakesBack.size());
  }
  if (!positional) head += argument_of(*option);
  std::string notes;
  if (const std::string values = values_of(*option); !values.empty()) notes += values;
  const std::string preset = option->get_default_str();
  constexpr std::array<std::string_view, 5> kNothing = {"", "[]", "{}", "false", "0"};
  if (preset != "\"\"" && std::ranges::find(kNothing, preset) == kNothing.end()) {
    notes += fmt::format("{}default {}", notes.empty() ? "" : "; ", preset);
  }
  std::string text = option->get_description();
  if (!notes.empty()) text += fmt::format(" ({})", notes);
  return std::string(kNameIndent, ' ') + head + '\n' + wrap(text, kTextIndent, kWidth);
}

std::string HelpFormatter::make_subcommands(const CLI::App* app, CLI::AppFormatMode) const {
  const auto commands = app->get_subcommands({});
  if (commands.empty()) return {};
  std::string text = "\nCOMMANDS (each has --help)\n";
  for (const CLI::App* command : commands) {
    text += std::string(kNameIndent, ' ') + command->get_name() + '\n' +
            wrap(command->get_description(), kTextIndent, kWidth);
  }
  return text;
}

}  // namespace

std::shared_ptr<CLI::FormatterBase> make_help_formatter() {
  return std::make_shared<HelpFormatter>();
}

std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::istringstream words(text);
  std::string word;
  std::string line(indent, ' ');
  std::string result;
  while (words >> word) {
    if (line.size() > indent && line.size() + 1 + word.size() > width) {
      result += line + '\n';
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += word;
  }
  return line.size() > indent ? result + line + '\n' : result;
}

}  // namespace rockhopper::apps
