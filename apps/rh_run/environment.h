// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "apps/rh_run/options.h"
#include "stack/error.h"

namespace rockhopper::apps::launcher {

/// The folder with libibverbs.so.1: beside this program where it is built, else where both are
/// installed.
[[nodiscard]] Expected<std::string> library_folder();

/// Whether ROCKHOPPER_VERBS says that the system's devices are wanted. Fails if it says anything
/// else.
[[nodiscard]] Expected<bool> is_off();

/// Sets this process's environment for a command, which sees the devices and the tree. What stood
/// in LD_LIBRARY_PATH and LD_PRELOAD stays behind what is put there.
[[nodiscard]] Expected<void> set_environment(const Options& options, const std::string& folder);

/// Takes out of this process's environment what set_environment() puts there.
void clear_environment(const std::string& folder);

}  // namespace rockhopper::apps::launcher
