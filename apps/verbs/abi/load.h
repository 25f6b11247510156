// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/verbs/abi/table.h"

namespace rockhopper::verbs {

/// The verbs of the engine library; before it is loaded a table without any. Never null.
[[nodiscard]] const VerbsTable& loaded_table();

/// Loads the engine library, from the folder that this library is in, unless that has been done.
/// Any thread may call it; others wait. Returns false, with errno set and one line on standard
/// error, if it is not there or does not fit; the next call then tries again.
[[nodiscard]] bool load_engine();

}  // namespace rockhopper::verbs
