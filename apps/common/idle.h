// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "apps/common/option_set.h"
#include "stack/idle.h"

namespace rockhopper::apps {

using stack::IdlePolicy;
using stack::Idler;
using stack::kIdleSleepNs;
using stack::kLongIdleSleepNs;

/// The option --idle. `text` is its value: "poll", "yield" or "sleep".
Option add_idle_option(const OptionSet& app, std::string& text);
/// `text` is a value that the option takes.
[[nodiscard]] IdlePolicy parse_idle(const std::string& text);

}  // namespace rockhopper::apps
