// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/option_set.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "apps/common/help_formatter.h"

namespace rockhopper::apps {

template <OptionBound Number>
Option Option::range(Number low, Number high) const {
  const CLI::Range range(low, high);
  // What is wrong is told in words of our own: those of CLI11 2.3 and 2.4 are others.
  const auto problem = [range, low, high](const std::string& value) {
    return range(value).empty() ? std::string()
                                : fmt::format("Value {} not in range {} to {}", value, low, high);
  };
  option_->check(problem, range.get_description());
  return *this;
}

template Option Option::range(double, double) const;
template Option Option::range(std::int32_t, std::int32_t) const;
template Option Option::range(std::int64_t, std::int64_t) const;
template Option Option::range(std::uint32_t, std::uint32_t) const;
template Option Option::range(std::uint64_t, std::uint64_t) const;

Option Option::positive() const {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Option Option::one_of(std::initializer_list<const char*> values) const {
  return one_of(std::vector<std::string>(values.begin(), values.end()));
}

Option Option::one_of(std::initializer_list<int> values) const {
  option_->check(CLI::IsMember(std::vector<int>(values)));
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

Option Option::group(std::string_view name) const {
  option_->group(std::string(name));
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

template <OptionTarget Target>
Option OptionSet::add_option(std::string_view names, Target& target, std::string_view help) const {
  return Option(*app_->add_option(std::string(names), target, std::string(help)));
}

template Option OptionSet::add_option(std::string_view, double&, std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::int32_t&, std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::int64_t&, std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::uint8_t&, std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::uint16_t&, std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::uint32_t&, std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::uint64_t&, std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::string&, std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::optional<std::int64_t>&,
                                      std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::optional<std::uint16_t>&,
                                      std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::optional<std::uint32_t>&,
                                      std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::optional<std::uint64_t>&,
                                      std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::optional<std::string>&,
                                      std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::vector<std::uint32_t>&,
                                      std::string_view) const;
template Option OptionSet::add_option(std::string_view, std::vector<std::string>&,
                                      std::string_view) const;

Option OptionSet::add_option_function(std::string_view names,
                                      const std::function<void(const std::string&)>& take,
                                      std::string_view help) const {
  return Option(
      *app_->add_option_function<std::string>(std::string(names), take, std::string(help)));
}

Option OptionSet::add_ignored_option(std::string_view names, std::string_view help) const {
  const CLI::callback_t ignore = [](const CLI::results_t&) { return true; };
  return Option(*app_->add_option(std::string(names), ignore, std::string(help)));
}

Option OptionSet::add_flag(std::string_view names, bool& target, std::string_view help) const {
  return Option(*app_->add_flag(std::string(names), target, std::string(help)));
}

OptionSet OptionSet::add_command(std::string_view name, std::string_view summary) const {
  return OptionSet(*app_->add_subcommand(std::string(name), std::string(summary)));
}

void OptionSet::require_command() const { app_->require_subcommand(1); }

bool OptionSet::given() const { return app_->parsed(); }

void OptionSet::on_complete(std::function<void()> finish) const {
  app_->parse_complete_callback(std::move(finish));
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
  // CLI11 takes a vector of arguments from its end.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app_->parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return tl::make_unexpected(Error{ErrorCode::invalid_argument, error.what()});
    }
    (void)app_->exit(error);
    return Outcome::shown;
  }
  return Outcome::read;
}

std::string OptionParser::help() const { return app_->help(); }

}  // namespace rockhopper::apps
