// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/quantities.h"

#include "stack/quantity.h"

namespace rockhopper::apps::dag_node {

Expected<void> read_bytes(const char* option, const std::string& text, const Range& range,
                          std::uint64_t& bytes) {
  if (stack::parse_bytes(text, bytes) && bytes >= range.least && bytes <= range.most) return {};
  return fail(ErrorCode::invalid_argument,
              "{} {}: expected are bytes, as 64KiB or 4MB, {} to {} of them", option, text,
              range.least, range.most);
}

Expected<void> read_time(const char* option, const std::string& text, const Range& range,
                         std::uint64_t& ns) {
  if (stack::parse_time(text, ns) && ns >= range.least && ns <= range.most) return {};
  return fail(ErrorCode::invalid_argument,
              "{} {}: expected is a time, as 500ms or 2s, from {} to {} s", option, text,
              static_cast<double>(range.least) * 1e-9, static_cast<double>(range.most) * 1e-9);
}

}  // namespace rockhopper::apps::dag_node
