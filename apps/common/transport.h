// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

#include "apps/common/names.h"

namespace rockhopper::apps {

/// Of the queue pairs between two programs.
enum class Transport : std::uint8_t { rc, dc };

constexpr auto names_of(Transport) { return std::array{Names{"rc", "RC"}, Names{"dc", "DC"}}; }

}  // namespace rockhopper::apps
