// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdlib>

#include <dlfcn.h>

namespace rockhopper::verbs {

/// The next function of that name behind this library: looked up once, which may be done twice at
/// the same time without harm.
template <typename Function>
Function* next(Function*& known, const char* name) {
  Function* found = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    // A C library without it has no program that calls it.
    if (found == nullptr) std::abort();
    __atomic_store_n(&known, found, __ATOMIC_RELAXED);
  }
  return found;
}

}  // namespace rockhopper::verbs
