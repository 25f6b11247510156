// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string_view>

#include "stack/error.h"

namespace rockhopper::apps::publish {

/// Whether it can be the name of a store or of a subscriber: 1 to 63 letters, digits, '.', '_' and
/// '-', the first one no '.' or '-'. So a store's name is a file's, too.
[[nodiscard]] Expected<void> check_name(std::string_view name);

}  // namespace rockhopper::apps::publish
