// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <utility>

#include <fmt/core.h>
#include <tl/expected.hpp>

namespace rockhopper {

/// What kind of failure a control-path call met. Data-path results have enums of their own.
enum class ErrorCode {
  invalid_argument,  ///< the caller's value is out of range or inconsistent
  invalid_state,     ///< right call, wrong moment (a queue pair's state, a closed object)
  not_found,
  exhausted,  ///< a configured limit or the memory behind it is used up
  busy,
  unsupported,
  io,  ///< the operating system or DPDK refused
  timeout,
};

/// A control-path error: a kind for programs, one line for people.
struct Error {
  ErrorCode code;
  std::string message;
};

template <typename T>
using Expected = tl::expected<T, Error>;

/// `return fail(ErrorCode::busy, "port {} is in use", port);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> text,
                                         Args&&... args) {
  return tl::make_unexpected(Error{code, fmt::format(text, std::forward<Args>(args)...)});
}

}  // namespace rockhopper
