// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <vector>

#include "apps/common/option_set.h"

namespace rockhopper::apps {

/// The options that a program has with these arguments, or what is bad about them. `add_options` is
/// the program's, called with an OptionSet and the options.
template <typename Options, typename AddOptions>
[[nodiscard]] Expected<Options> options_of(const AddOptions& add_options,
                                           const std::vector<std::string>& arguments) {
  OptionParser parser({.name = "program"});
  Options options;
  add_options(parser.options(), options);
  ROCKHOPPER_TRY(parser.parse(arguments));
  return options;
}

}  // namespace rockhopper::apps
