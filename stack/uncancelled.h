// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <pthread.h>

namespace rockhopper::stack {

/// The scope in which pthread_cancel() of the calling thread waits. Threads of any program run what
/// is here, and one that was cancelled in the middle would leave that half done, with locks held.
///
/// A thread is cancelled in functions of the C library that call the kernel. On the data path each
/// place that calls one has this scope of its own, as it costs about ten nanoseconds; on the
/// control path whole verbs have it. Verbs that wait for an event are cancelled where they wait, as
/// with a kernel's device.
class Uncancelled {
 public:
  Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace rockhopper::stack
