// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/after_fork.h"

#include <pthread.h>

namespace rockhopper::verbs {
namespace {

bool registered = false;

}  // namespace

Expected<void> call_after_fork(void (*forget)()) {
  if (registered) return {};
  if (pthread_atfork(nullptr, nullptr, forget) != 0) {
    return fail(ErrorCode::exhausted, "no memory to prepare for fork()");
  }
  registered = true;
  return {};
}

}  // namespace rockhopper::verbs
