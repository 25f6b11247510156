// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <string>

#include "apps/common/page_memory.h"

namespace rockhopper::apps::publish {

/// The memory of a store in a file, which has what earlier publishers wrote: makes the file, or
/// maps the one that is there, which must have that size. Nobody else writes it meanwhile: fails if
/// another publisher does.
[[nodiscard]] Expected<PageMemory> open_store_file(const std::string& path, std::size_t bytes);

}  // namespace rockhopper::apps::publish
