// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string_view>

namespace rockhopper::apps {

/// The project's version, from the build file.
inline constexpr std::string_view kVersion = ROCKHOPPER_VERSION;

}  // namespace rockhopper::apps
