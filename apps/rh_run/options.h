// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <vector>

#include "apps/common/option_set.h"

namespace rockhopper::apps::launcher {

struct Options {
  std::vector<std::string> devices{};  ///< empty: those of the environment, or rh0
  std::string addresses{};             ///< these five: empty as what the environment has
  std::string pcap{};
  std::string faults{};
  std::string progress{};
  std::string uplink{};
  bool preload = false;
  bool check = false;
};

void add_options(const OptionSet& app, Options& options);

/// What is to be seen of several options together. Errors: `invalid_argument`.
[[nodiscard]] Expected<void> check(const Options& options);

/// What stands before the command, and the command with its arguments.
struct Split {
  std::vector<std::string> own{};
  std::vector<std::string> command{};
};
/// The command begins at the first argument that is neither an option nor an option's value, or
/// behind "--".
[[nodiscard]] Split split_command(int argc, const char* const* argv);

}  // namespace rockhopper::apps::launcher
