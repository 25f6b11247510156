// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rockhopper::apps::subscribe {

/// A message as it came out of a store; valid during the call that it is given to.
struct Delivery {
  std::string_view store;
  std::uint64_t epoch = 0;  ///< of the publisher's incarnation
  std::uint64_t sequence = 0;
  std::uint64_t time_ns = 0;  ///< when it was published, since 1970
  std::span<const std::byte> payload;
};

/// Messages that were overwritten before they could be read: from `first` to `last`.
struct Loss {
  std::string_view store;
  std::uint64_t epoch = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

}  // namespace rockhopper::apps::subscribe
