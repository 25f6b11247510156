// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "apps/common/names.h"
#include "stack/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rockhopper::apps {

// CLI11 is behind these classes, because a file that includes it takes seconds longer to compile.

/// Where an option's value is stored. An optional stays empty if the option is not given, and a
/// vector has the values of all uses of the option.
using OptionTarget =
    std::variant<double*, std::int32_t*, std::int64_t*, std::uint8_t*, std::uint16_t*,
                 std::uint32_t*, std::uint64_t*, std::string*, std::optional<std::int64_t>*,
                 std::optional<std::uint16_t>*, std::optional<std::uint32_t>*,
                 std::optional<std::uint64_t>*, std::optional<std::string>*,
                 std::vector<std::uint32_t>*, std::vector<std::string>*>;
/// What an option can store its value in.
template <typename Target>
concept Storable = std::constructible_from<OptionTarget, Target*>;

/// An option that has been added. Its functions say more of it, and return it for a chain of them.
/// Copies stand for the same option, which its OptionParser owns.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  /// The value is a number from `low` to `high`, including these two.
  template <std::integral Number>
  Option range(Number low, Number high) const {
    return whole_range(static_cast<std::int64_t>(low), static_cast<std::int64_t>(high));
  }
  Option range(double low, double high) const;
  /// The value is a number above 0.
  Option positive() const;
  /// The value is one of `values`.
  Option one_of(std::initializer_list<const char*> values) const;
  Option one_of(std::initializer_list<int> values) const;
  Option one_of(std::vector<std::string> values) const;

  /// What --help calls the value, in place of the name of the target's type.
  Option type_name(std::string_view name) const;
  /// The default value in --help, in place of what the target has when the option is added.
  Option default_text(std::string_view text) const;

  /// Arguments without it are bad.
  Option required() const;
  /// Each use of the option takes one value. Without this, one with a vector as its target takes
  /// all arguments up to the next option.
  Option one_value_each() const;
  /// Arguments with both are bad.
  Option excludes(const Option& other) const;
  /// Arguments with this and without `other` are bad.
  Option needs(const Option& other) const;

  /// Whether the arguments have the option. To be asked after OptionParser::parse(), or in what
  /// OptionSet::on_complete() has been given.
  [[nodiscard]] bool given() const;

 private:
  [[nodiscard]] Option whole_range(std::int64_t low, std::int64_t high) const;

  CLI::Option* option_;
};

/// The least and the most that a quantity may be.
struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = UINT64_MAX;

  [[nodiscard]] bool has(std::uint64_t value) const { return value >= least && value <= most; }
};

/// The options of a program, or of one of its commands. Copies stand for the same options, which
/// their OptionParser owns. An option's names are as "-n,--count", or as "host" if it is known by
/// its position alone; what stands behind a blank, as in "--vlan ID", is what --help calls its
/// value in place of the name of the target's type. `help` is what --help says of it. Its target
/// has to live until the arguments are parsed. Names that are taken already or that cannot be names
/// throw an exception of CLI11: the mistake is the program's.
class OptionSet {
 public:
  /// Calls a value's parser once all arguments are read: in the order in which options were added.
  using Parse = std::function<Expected<void>(const std::string& text)>;
  /// `checks` are called behind a successful parse.
  using Checks = std::vector<std::pair<const CLI::App*, std::function<Expected<void>()>>>;
  OptionSet(CLI::App& app, Checks& checks) : app_(&app), checks_(&checks) {}

  /// The same options, of which those that are added stand under a heading of their own in --help.
  [[nodiscard]] OptionSet group(std::string_view title) const;

  /// Stores the value in `target`, which has the default value.
  template <Storable Target>
  Option add_option(std::string_view names, Target& target, std::string_view help = {}) const {
    return add_value(names, OptionTarget(&target), help);
  }
  /// The value is the name of an enumerator.
  template <Named Enum>
  Option add_option(std::string_view names, Enum& target, std::string_view help = {}) const {
    const auto take = [&target](const std::string& name) { target = *parse_name<Enum>(name); };
    std::vector<std::string> all;
    for (const Names& value : names_of(Enum{})) {
      all.emplace_back(value.name);
    }
    return add_option_function(names, take, help)
        .one_of(std::move(all))
        .default_text(name_of(target));
  }
  /// The value is one of `values`, as their to_string() says it.
  template <typename Enum>
  Option add_option(std::string_view names, Enum& target, std::initializer_list<Enum> values,
                    std::string_view help) const {
    std::vector<std::string> all;
    for (const Enum value : values) {
      all.emplace_back(to_string(value));
    }
    const auto take = [&target, all, values = std::vector<Enum>(values)](const std::string& name) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] == name) target = values[i];
      }
    };
    return add_option_function(names, take, help).one_of(all).default_text(to_string(target));
  }
  /// Gives the value to `parse`, or `preset` if the option is not given. What fails is bad
  /// arguments, and so is an empty value.
  Option add_parsed(std::string_view names, std::string_view preset, Parse parse,
                    std::string_view help) const;
  /// Gives each of the option's values to `parse`.
  Option add_parsed_list(std::string_view names, Parse parse, std::string_view help) const;
  /// Bytes, or a time in nanoseconds, with a unit (stack/quantity.h). `preset` is the default;
  /// empty: the target stays as it is.
  Option add_bytes(std::string_view names, std::uint64_t& target, std::string_view preset,
                   const Range& range, std::string_view help) const;
  Option add_time(std::string_view names, std::uint64_t& target_ns, std::string_view preset,
                  const Range& range, std::string_view help) const;
  /// Calls `take` with the value if the option is given.
  Option add_option_function(std::string_view names,
                             const std::function<void(const std::string&)>& take,
                             std::string_view help) const;
  /// Takes a value of any kind and does nothing with it.
  Option add_ignored_option(std::string_view names, std::string_view help) const;
  /// Stores in `target` whether it was given, or the opposite for a name behind '!', as in
  /// "--check,!--no-check".
  Option add_flag(std::string_view names, bool& target, std::string_view help = {}) const;

  /// A command with options of its own. `summary` is a sentence about it.
  [[nodiscard]] OptionSet add_command(std::string_view name, std::string_view summary) const;
  /// Arguments without one of the commands are bad.
  void require_command() const;
  /// Whether the arguments have this command. To be asked after OptionParser::parse().
  [[nodiscard]] bool given() const;

  /// Calls `check` once all values are stored, in the order of these calls and of the parsers; of a
  /// command only if it is given. It may fill in what depends on several options, and what it fails
  /// with is bad arguments.
  void check(std::function<Expected<void>()> check) const;

 private:
  Option add_value(std::string_view names, OptionTarget target, std::string_view help) const;
  /// Behind a blank of `names` there may be a type's name.
  template <typename Add>
  [[nodiscard]] Option add(std::string_view names, const Add& add) const;

  CLI::App* app_;
  Checks* checks_;
  std::string group_;
};

/// For options that exclude each other, or need each other: the text of the first that holds, as
/// bad arguments.
struct Refusal {
  bool holds;
  std::string text;
};
[[nodiscard]] Expected<void> refuse_if(std::initializer_list<Refusal> refusals);

/// Writes what has been printed on standard output. Fails with `io` if that, or any of what was
/// printed before, cannot be.
[[nodiscard]] Expected<void> write_out();

/// What --help and --version say of a program besides its options.
struct OptionTexts {
  std::string name;
  std::string summary;
  std::string version;
  std::string footer;  ///< shown behind the options, as it is
};

/// Owns a program's options and reads its arguments.
class OptionParser {
 public:
  enum class Outcome : std::uint8_t {
    read,   ///< the targets have the values
    shown,  ///< --help or --version was given, and standard output has the text
  };

  explicit OptionParser(const OptionTexts& texts);
  OptionParser(const OptionParser&) = delete;
  OptionParser& operator=(const OptionParser&) = delete;
  ~OptionParser();

  [[nodiscard]] OptionSet options() { return {*app_, checks_}; }
  /// Reads `arguments`, which are without the program's name. An error says what is bad about them;
  /// then some targets may have their values already.
  [[nodiscard]] Expected<Outcome> parse(const std::vector<std::string>& arguments);
  /// The text of --help.
  [[nodiscard]] std::string help() const;
  /// The command that the arguments have had; empty: none.
  [[nodiscard]] std::string command() const;

 private:
  std::unique_ptr<CLI::App> app_;
  OptionSet::Checks checks_;
};

}  // namespace rockhopper::apps
