// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/after_fork.h"

#include <algorithm>
#include <array>
#include <cassert>

#include <pthread.h>

namespace rockhopper::verbs {
namespace {

/// One of the node, one of what stands on it.
std::array<void (*)(), 2> registered{};

}  // namespace

Expected<void> call_after_fork(void (*forget)()) {
  const auto known = std::find(registered.begin(), registered.end(), forget);
  if (known != registered.end()) return {};
  const auto free = std::find(registered.begin(), registered.end(), nullptr);
  assert(free != registered.end());
  if (pthread_atfork(nullptr, nullptr, forget) != 0) {
    return fail(ErrorCode::exhausted, "no memory to prepare for fork()");
  }
  *free = forget;
  return {};
}

}  // namespace rockhopper::verbs
