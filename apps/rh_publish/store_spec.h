// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/services/publisher/layout.h"
#include "stack/error.h"

namespace rockhopper::apps::publish {

/// What --store says: NAME=SIZE[:conflated[:keys=N]][:file=PATH].
struct StoreSpec {
  std::string name;
  std::uint64_t bytes = 0;  ///< of the ring, a power of two; conflated: of all slots
  publisher::StoreKind kind = publisher::StoreKind::log;
  std::uint32_t keys = 1024;  ///< conflated
  std::string file;           ///< that the store is kept in; empty: it is in memory only
};

[[nodiscard]] Expected<StoreSpec> parse_store(std::string_view text);

/// Which part of a message its key is, for conflated stores.
struct KeyRule {
  std::size_t bytes = 0;  ///< so many at the beginning; 0: up to the first space or tab
};

/// Reads "word" or "bytes:N".
[[nodiscard]] Expected<KeyRule> parse_key_rule(std::string_view text);

}  // namespace rockhopper::apps::publish
