// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memory_limit.h"

#include <algorithm>

#include <fmt/format.h>
#include <sys/resource.h>

namespace rockhopper::stack {
namespace {

std::string limit_text(int resource, char letter) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return {};
  }
  return fmt::format("; this process may have {} MB (ulimit -{})", limit.rlim_cur / 1'000'000,
                     letter);
}

}  // namespace

std::string memory_limit_text() {
  return limit_text(RLIMIT_AS, 'v') + limit_text(RLIMIT_DATA, 'd');
}

}  // namespace rockhopper::stack
