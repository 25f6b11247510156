// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rockhopper::apps {

// CLI11 is behind these classes, because a file that includes it takes seconds longer to compile.

template <typename T, typename... Types>
concept AnyOf = (std::same_as<T, Types> || ...);

/// What an option's value can be stored in. An optional stays empty if the option is not given, and
/// a vector has the values of all uses of the option.
template <typename T>
concept OptionTarget =
    AnyOf<T, double, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
          std::uint64_t, std::string, std::optional<std::int64_t>, std::optional<std::uint16_t>,
          std::optional<std::uint32_t>, std::optional<std::uint64_t>, std::optional<std::string>,
          std::vector<std::uint32_t>, std::vector<std::string>>;

/// What a range of values can have as its ends.
template <typename T>
concept OptionBound = AnyOf<T, double, std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>;

/// An option that has been added. Its functions say more of it, and return it for a chain of them.
/// Copies stand for the same option, which its OptionParser owns.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  /// The value is a number from `low` to `high`, including these two.
  template <OptionBound Number>
  Option range(Number low, Number high) const;
  /// The value is a number above 0.
  Option positive() const;
  /// The value is one of `values`.
  Option one_of(std::initializer_list<const char*> values) const;
  Option one_of(std::initializer_list<int> values) const;
  Option one_of(std::vector<std::string> values) const;
  /// The value is a key of `values`.
  template <typename Value>
  Option one_of_keys(const std::map<std::string, Value>& values) const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : values) keys.push_back(key);
    return one_of(std::move(keys));
  }

  /// What --help calls the value, in place of the name of the target's type.
  Option type_name(std::string_view name) const;
  /// The heading in --help under which the option stands.
  Option group(std::string_view name) const;
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
  CLI::Option* option_;
};

/// The options of a program, or of one of its commands. Copies stand for the same options, which
/// their OptionParser owns. An option's names are as "-n,--count", or as "host" if it is known by
/// its position alone, and `help` is what --help says of it. Its target has to live until the
/// arguments are parsed. Names that are taken already or that cannot be names throw an exception of
/// CLI11: the mistake is the program's.
class OptionSet {
 public:
  explicit OptionSet(CLI::App& app) : app_(&app) {}

  /// Stores the value in `target`, which has the default value.
  template <OptionTarget Target>
  Option add_option(std::string_view names, Target& target, std::string_view help = {}) const;
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

  /// Calls `finish` once all values are stored. A later call replaces `finish`.
  void on_complete(std::function<void()> finish) const;

 private:
  CLI::App* app_;
};

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

  [[nodiscard]] OptionSet options() const { return OptionSet(*app_); }
  /// Reads `arguments`, which are without the program's name. An error says what is bad about them;
  /// then some targets may have their values already.
  [[nodiscard]] Expected<Outcome> parse(const std::vector<std::string>& arguments);
  /// The text of --help.
  [[nodiscard]] std::string help() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace rockhopper::apps
