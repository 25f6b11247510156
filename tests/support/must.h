// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdlib>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "stack/error.h"

namespace rockhopper::test {

/// Returns the value. Set-up does not fail: an error is told of, and ends the program.
template <typename T>
T must(Expected<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace rockhopper::test
