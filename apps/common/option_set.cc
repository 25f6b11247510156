// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/option_set.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "apps/common/help_formatter.h"
#include "stack/quantity.h"

namespace rockhopper::apps {
namespace {

/// The longest of an option's names, without what --help calls its value.
std::string long_name(std::string_view names) {
  names = names.substr(0, names.find(' '));
  return std::string(names.substr(names.rfind(',') + 1));
}

/// The same number for CLI11, whose own conversions take "010" for 8 and do not say what they would
/// take; nothing if it is no whole number from `low`, which is at most 0, to `high`.
std::optional<std::string> whole_number(std::string_view text, std::int64_t low,
                                        std::uint64_t high) {
  const bool negative = text.starts_with('-');
  std::uint64_t magnitude = 0;
  if (!stack::parse_unsigned(text.substr(negative ? 1 : 0), magnitude)) return std::nullopt;
  const std::uint64_t most = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(low) : high;
  if (magnitude > most) return std::nullopt;
  return fmt::format("{}{}", negative ? "-" : "", magnitude);
}

bool is_finite_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(value);
}

// Checks of the values that a target can have. They come first, as those of options follow.
template <typename Target>
void check_number(CLI::Option& /*option*/, const Target& /*target*/) {}

template <std::integral Number>
void check_number(CLI::Option& option, const Number& /*target*/) {
  static constexpr auto kLow = std::int64_t{std::numeric_limits<Number>::min()};
  static constexpr auto kHigh = std::uint64_t{std::numeric_limits<Number>::max()};
  const auto check = [](std::string& text) {
    const auto number = whole_number(text, kLow, kHigh);
    if (!number) return fmt::format("{} is not a whole number from {} to {}", text, kLow, kHigh);
    text = *number;
    return std::string();
  };
  option.transform(CLI::Validator(check, ""));
}

void check_number(CLI::Option& option, const double& /*target*/) {
  const auto check = [](std::string& text) {
    return is_finite_number(text) ? std::string() : fmt::format("{} is not a number", text);
  };
  option.transform(CLI::Validator(check, ""));
}

template <typename Number>
void check_number(CLI::Option& option, const std::optional<Number>& /*target*/) {
  check_number(option, Number());
}

template <typename Number>
void check_number(CLI::Option& option, const std::vector<Number>& /*target*/) {
  check_number(option, Number());
}

std::string refuse_empty(const std::string& value) {
  return value.empty() ? "it is empty; is a variable not set?" : "";
}

/// What may be meant by an argument that nobody expects: a value behind an option that takes none
/// has pushed the others to the end.
std::string hint_at_flag(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-') || arguments[i + 1].starts_with('-')) continue;
    const CLI::Option* option = app.get_option_no_throw(arguments[i]);
    if (option == nullptr || option->get_items_expected_max() > 0) continue;
    return fmt::format("; {} takes no value, and {} follows it", arguments[i], arguments[i + 1]);
  }
  return "";
}

/// The command of the arguments if there is one, the whole program's otherwise.
const CLI::App& parsed_app(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

/// Fails if the first argument is to be a command and is none.
Expected<void> check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (app.get_require_subcommand_min() == 0 || arguments.empty() ||
      arguments.front().starts_with('-')) {
    return {};
  }
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == arguments.front()) return {};
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return fail(ErrorCode::invalid_argument, "{}: there is no such command; there are {}",
              arguments.front(), names);
}

}  // namespace

// What is wrong is told in words of our own: those of CLI11 2.3 and 2.4 are others. These checks
// come before that of the target's type, which would tell what that can hold.

Option Option::whole_range(std::int64_t low, std::int64_t high) const {
  const auto check = [low, high](std::string& text) {
    const auto number =
        whole_number(text, std::min<std::int64_t>(low, 0), static_cast<std::uint64_t>(high));
    if (!number || std::strtoll(number->c_str(), nullptr, 10) < low) {
      return fmt::format("Value {} not in range {} to {}", text, low, high);
    }
    text = *number;
    return std::string();
  };
  option_->transform(CLI::Validator(check, CLI::Range(low, high).get_description()));
  return *this;
}

Option Option::range(double low, double high) const {
  const auto check = [low, high](std::string& text) {
    const double value = std::strtod(text.c_str(), nullptr);
    return is_finite_number(text) && value >= low && value <= high
               ? std::string()
               : fmt::format("Value {} not in range {} to {}", text, low, high);
  };
  option_->transform(CLI::Validator(check, CLI::Range(low, high).get_description()));
  return *this;
}

Option Option::positive() const {
  const auto problem = [](const std::string& value) {
    return std::strtod(value.c_str(), nullptr) > 0 ? std::string()
                                                   : fmt::format("{} is not above 0", value);
  };
  option_->check(problem, CLI::PositiveNumber.get_description());
  return *this;
}

Option Option::one_of(std::initializer_list<const char*> values) const {
  return one_of(std::vector<std::string>(values.begin(), values.end()));
}

Option Option::one_of(std::initializer_list<int> values) const {
  const CLI::IsMember member(std::vector<int>{values});
  const auto check = [member](std::string& text) {
    const auto number = whole_number(text, 0, INT_MAX);
    if (number && member(*number).empty()) {
      text = *number;
      return std::string();
    }
    return fmt::format("{} not in {}", text, member.get_description());
  };
  option_->transform(CLI::Validator(check, member.get_description()));
  return *this;
}

Option Option::one_of(std::vector<std::string> values) const {
  option_->check(CLI::IsMember(std::move(values)));
  return *this;
}

Option Option::type_name(std::string_view name) const {
  option_->type_name(std::string(name));
  return *this;
}

Option Option::default_text(std::string_view text) const {
  option_->default_str(std::string(text));
  return *this;
}

Option Option::required() const {
  option_->required();
  return *this;
}

Option Option::one_value_each() const {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::needs(const Option& other) const {
  option_->needs(other.option_);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

OptionSet OptionSet::group(std::string_view title) const {
  OptionSet same = *this;
  same.group_ = title;
  return same;
}

template <typename Add>
Option OptionSet::add(std::string_view names, const Add& add) const {
  const std::size_t blank = names.find(' ');
  CLI::Option& option = *add(std::string(names.substr(0, blank)));
  if (blank != std::string_view::npos) option.type_name(std::string(names.substr(blank + 1)));
  if (!group_.empty()) option.group(group_);
  return Option(option);
}

Option OptionSet::add_value(std::string_view names, OptionTarget target,
                            std::string_view help) const {
  return add(names, [&](const std::string& name) {
    const auto add_to = [&](auto* to) {
      CLI::Option* added = app_->add_option(name, *to, std::string(help));
      check_number(*added, *to);
      // A script with a variable that is not set.
      if (!name.starts_with('-')) added->check(refuse_empty, "");
      return added;
    };
    return std::visit(add_to, target);
  });
}

Option OptionSet::add_option_function(std::string_view names,
                                      const std::function<void(const std::string&)>& take,
                                      std::string_view help) const {
  return add(names, [&](const std::string& name) {
    return app_->add_option_function<std::string>(name, take, std::string(help));
  });
}

Option OptionSet::add_parsed(std::string_view names, std::string_view preset, Parse parse,
                             std::string_view help) const {
  const auto text = std::make_shared<std::string>(preset);
  const Option option = add_option(names, *text, help);
  check([text, option, parse = std::move(parse), name = long_name(names)]() -> Expected<void> {
    if (text->empty() && option.given()) {
      return fail(ErrorCode::invalid_argument, "{}: its value is empty", name);
    }
    return parse(*text);
  });
  return option;
}

Option OptionSet::add_parsed_list(std::string_view names, Parse parse,
                                  std::string_view help) const {
  const auto texts = std::make_shared<std::vector<std::string>>();
  check([texts, parse = std::move(parse)]() -> Expected<void> {
    for (const std::string& text : *texts) {
      ROCKHOPPER_TRY(parse(text));
    }
    return {};
  });
  return add_option(names, *texts, help).one_value_each();
}

Option OptionSet::add_bytes(std::string_view names, std::uint64_t& target, std::string_view preset,
                            const Range& range, std::string_view help) const {
  const auto parse = [&target, range,
                      name = long_name(names)](const std::string& text) -> Expected<void> {
    if (text.empty()) return {};
    if (stack::parse_bytes(text, target) && range.has(target)) return {};
    return fail(ErrorCode::invalid_argument,
                "{} {}: expected are bytes, as 64KiB or 4MB, {} to {} of them", name, text,
                range.least, range.most);
  };
  return add_parsed(names, preset, parse, help);
}

Option OptionSet::add_time(std::string_view names, std::uint64_t& target_ns,
                           std::string_view preset, const Range& range,
                           std::string_view help) const {
  const auto parse = [&target_ns, range,
                      name = long_name(names)](const std::string& text) -> Expected<void> {
    if (text.empty()) return {};
    if (stack::parse_time(text, target_ns) && range.has(target_ns)) return {};
    return fail(ErrorCode::invalid_argument,
                "{} {}: expected is a time, as 500ms or 2s, from {} to {} s", name, text,
                static_cast<double>(range.least) * 1e-9, static_cast<double>(range.most) * 1e-9);
  };
  return add_parsed(names, preset, parse, help);
}

Option OptionSet::add_ignored_option(std::string_view names, std::string_view help) const {
  const CLI::callback_t ignore = [](const CLI::results_t&) { return true; };
  return add(names, [&](const std::string& name) {
    return app_->add_option(name, ignore, std::string(help));
  });
}

Option OptionSet::add_flag(std::string_view names, bool& target, std::string_view help) const {
  return add(names, [&](const std::string& name) {
    return app_->add_flag(name, target, std::string(help));
  });
}

OptionSet OptionSet::add_command(std::string_view name, std::string_view summary) const {
  return {*app_->add_subcommand(std::string(name), std::string(summary)), *checks_};
}

void OptionSet::require_command() const { app_->require_subcommand(1); }

bool OptionSet::given() const { return app_->parsed(); }

void OptionSet::check(std::function<Expected<void>()> check) const {
  checks_->emplace_back(app_, std::move(check));
}

Expected<void> refuse_if(std::initializer_list<Refusal> refusals) {
  for (const Refusal& refusal : refusals) {
    if (refusal.holds) return fail(ErrorCode::invalid_argument, "{}", refusal.text);
  }
  return {};
}

Expected<void> write_out() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return fail(ErrorCode::io, "standard output cannot be written");
}

OptionParser::OptionParser(const OptionTexts& texts)
    : app_(std::make_unique<CLI::App>(texts.summary, texts.name)) {
  app_->set_version_flag("--version", texts.version);
  app_->footer(texts.footer);
  app_->formatter(make_help_formatter());
  app_->option_defaults()->always_capture_default();
}

OptionParser::~OptionParser() = default;

Expected<OptionParser::Outcome> OptionParser::parse(const std::vector<std::string>& arguments) {
  ROCKHOPPER_TRY(check_command(*app_, arguments));
  // CLI11 takes a vector of arguments from its end.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app_->parse(std::move(reversed));
  } catch (const CLI::ExtrasError& error) {
    return fail(ErrorCode::invalid_argument, "{}{}", error.what(),
                hint_at_flag(parsed_app(*app_), arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return tl::make_unexpected(Error{ErrorCode::invalid_argument, error.what()});
    }
    (void)app_->exit(error);
    return Outcome::shown;
  }
  for (const auto& [app, check] : checks_) {
    if (app->parsed()) ROCKHOPPER_TRY(check());
  }
  return Outcome::read;
}

std::string OptionParser::help() const { return app_->help(); }

std::string OptionParser::command() const {
  const auto commands = app_->get_subcommands();
  return commands.empty() ? "" : commands.front()->get_name();
}

}  // namespace rockhopper::apps
