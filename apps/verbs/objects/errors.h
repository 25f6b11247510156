// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cerrno>
#include <new>
#include <type_traits>

#include "roce/work_request.h"
#include "stack/error.h"
#include "stack/uncancelled.h"

namespace rockhopper::verbs {

/// The errno of an error of the engine's control path.
[[nodiscard]] int errno_of(ErrorCode code);
[[nodiscard]] inline int errno_of(const Error& error) { return errno_of(error.code); }
/// 0 for `ok`.
[[nodiscard]] int errno_of(roce::PostResult result);

/// Sets errno and returns null or -1, as verbs do that return pointers or negative numbers.
class Refusal {
 public:
  explicit Refusal(int error) : error_(error) {}
  template <typename T>
  operator T*() const {  // NOLINT(google-explicit-constructor): it stands for either
    errno = error_;
    return nullptr;
  }
  operator int() const {  // NOLINT(google-explicit-constructor)
    errno = error_;
    return -1;
  }

 private:
  int error_;
};
[[nodiscard]] inline Refusal refuse(int error) { return Refusal(error); }
[[nodiscard]] inline Refusal refuse(const Error& error) { return Refusal(errno_of(error)); }

namespace detail {

template <auto kFunction, typename = decltype(kFunction)>
struct Guarded;

template <auto kFunction, typename Result, typename... Args>
struct Guarded<kFunction, Result (*)(Args...)> {
  static Result call(Args... args) noexcept {
    const stack::Uncancelled uncancelled;
    try {
      return kFunction(args...);
    } catch (const std::bad_alloc&) {
      errno = ENOMEM;
      if constexpr (std::is_pointer_v<Result>) {
        return nullptr;
      } else if constexpr (!std::is_void_v<Result>) {
        return static_cast<Result>(ENOMEM);
      }
    }
  }
};

}  // namespace detail

/// The function as C code may call it: that there is no memory is an errno. All else that C++ might
/// throw is a defect, and ends the process. It is not cancelled.
template <auto kFunction>
inline constexpr auto kGuarded = &detail::Guarded<kFunction>::call;

}  // namespace rockhopper::verbs
