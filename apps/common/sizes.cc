// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/sizes.h"

#include "stack/quantity.h"
#include "stack/split_list.h"

namespace rockhopper::apps {

Expected<std::uint32_t> parse_size(std::string_view text) {
  std::uint64_t bytes = 0;
  if (stack::parse_bytes(text, bytes) && bytes <= kSizeMax) {
    return static_cast<std::uint32_t>(bytes);
  }
  return fail(ErrorCode::invalid_argument, "--size {}: sizes are 0 to 2G, as 64, 4k, 64KiB or 1M",
              text);
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
