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

/// `ROCKHOPPER_TRY(auto region, engine.register_memory(pd, data, bytes, access));` declares
/// `region` with the value of the expression, an Expected; `ROCKHOPPER_TRY(region_, ...)` assigns
/// it to what exists already; `ROCKHOPPER_TRY(flush());` is for an expression without a value, or
/// whose value may end at once. If the expression is an error, the function returns that error.
///
/// The expression is evaluated once, and the value is moved out of it. The macro needs the place of
/// a statement; with a variable it is several statements, so it cannot be the body of an `if`
/// without braces. A comma outside of all parentheses separates the macro's arguments: an
/// expression with one, as `f<int, int>()`, is put in parentheses.
#define ROCKHOPPER_TRY(...)                                                             \
  ROCKHOPPER_TRY_CHOOSE(__VA_ARGS__, ROCKHOPPER_TRY_VALUE, ROCKHOPPER_TRY_ONLY, unused) \
  (ROCKHOPPER_TRY_NAME(rockhopper_tried_, __COUNTER__), __VA_ARGS__)
#define ROCKHOPPER_TRY_CHOOSE(first, second, chosen, ...) chosen
#define ROCKHOPPER_TRY_NAME(prefix, number) ROCKHOPPER_TRY_JOIN(prefix, number)
#define ROCKHOPPER_TRY_JOIN(prefix, number) prefix##number
// NOLINTBEGIN(bugprone-macro-parentheses): a variable that is declared stands in none.
#define ROCKHOPPER_TRY_VALUE(result, variable, expression)            \
  auto result = expression;                                           \
  if (!result) return tl::make_unexpected(std::move(result).error()); \
  variable = std::move(*result)
#define ROCKHOPPER_TRY_ONLY(result, expression)                                                   \
  do {                                                                                            \
    if (auto result = expression; !result) return tl::make_unexpected(std::move(result).error()); \
  } while (false)
// NOLINTEND(bugprone-macro-parentheses)
