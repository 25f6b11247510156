// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/sizes.h"

#include <charconv>
#include <cstddef>
#include <system_error>

#include "stack/split_list.h"

namespace rockhopper::apps {

Expected<std::uint32_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  unsigned shift = 0;
  if (unit == "k" || unit == "K") shift = 10;
  if (unit == "m" || unit == "M") shift = 20;
  if (unit == "g" || unit == "G") shift = 30;
  if (error != std::errc{} || (!unit.empty() && shift == 0) || value > (kSizeMax >> shift)) {
    return fail(ErrorCode::invalid_argument, "--size {}: sizes are 0 to 1G, as 64, 4k or 1M", text);
  }
  return static_cast<std::uint32_t>(value << shift);
}

Expected<std::vector<std::uint32_t>> parse_sizes(std::string_view list, std::uint32_t max) {
  std::vector<std::uint32_t> sizes;
  ROCKHOPPER_TRY(stack::split_list(list, [&](std::string_view text) -> Expected<void> {
    ROCKHOPPER_TRY(auto size, parse_size(text));
    if (size > max) {
      return fail(ErrorCode::invalid_argument, "--size {}: payloads have up to {}M", text,
                  max >> 20);
    }
    sizes.push_back(size);
    return {};
  }));
  return sizes;
}

}  // namespace rockhopper::apps
