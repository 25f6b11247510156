// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rockhopper::apps {

/// Of the queue pairs between two programs.
enum class Transport : std::uint8_t { rc, dc };

/// The name that options and messages use.
[[nodiscard]] std::string_view to_string(Transport transport);
[[nodiscard]] std::optional<Transport> parse_transport(std::string_view name);
/// The name that titles and reports use.
[[nodiscard]] std::string_view title(Transport transport);

}  // namespace rockhopper::apps
