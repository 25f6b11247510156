// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/priority_map.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "stack/split_list.h"

namespace rockhopper::stack {
namespace {

/// A number below `limit` that is all of `text`.
std::optional<unsigned> number_below(std::string_view text, unsigned limit) {
  unsigned value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last || value >= limit) return std::nullopt;
  return value;
}

}  // namespace

Expected<Trust> parse_trust(std::string_view text) {
  if (text == "pcp") return Trust::pcp;
  if (text == "dscp") return Trust::dscp;
  return fail(ErrorCode::invalid_argument, "a port trusts pcp or dscp, not \"{}\"", text);
}

Expected<void> parse_dscp_priorities(std::string_view text, PriorityMap::Table& table) {
  PriorityMap::Table changed = table;
  auto split = split_list(text, [&](std::string_view item) -> Expected<void> {
    const std::size_t equals = item.find('=');
    const std::string_view range = item.substr(0, equals);
    const std::size_t dash = range.find('-');
    const auto first = number_below(range.substr(0, dash), PriorityMap::kDscps);
    const auto last = dash == std::string_view::npos
                          ? first
                          : number_below(range.substr(dash + 1), PriorityMap::kDscps);
    const auto priority = equals == std::string_view::npos
                              ? std::nullopt
                              : number_below(item.substr(equals + 1), kPriorities);
    if (!first || !last || !priority || *first > *last) {
      return fail(ErrorCode::invalid_argument,
                  "\"{}\" is no DSCP (0 to 63) or range of them with a priority (0 to 7), "
                  "as 26=3 or 8-15=1",
                  item);
    }
    std::fill(changed.begin() + *first, changed.begin() + *last + 1,
              static_cast<std::uint8_t>(*priority));
    return {};
  });
  if (split) table = changed;
  return split;
}

}  // namespace rockhopper::stack
