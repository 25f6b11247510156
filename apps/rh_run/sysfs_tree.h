// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "stack/error.h"

namespace rockhopper::apps::launcher {

/// Writes what programs read of the devices in /sys and /dev, as the environment has the devices
/// and their addresses, into a folder below the runtime directory, and returns that. A folder with
/// the same contents is used again, so that it may be read while it is asked for once more.
[[nodiscard]] Expected<std::string> render_tree();

}  // namespace rockhopper::apps::launcher
