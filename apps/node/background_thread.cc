// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/background_thread.h"

#include <csignal>
#include <utility>

#include <sys/prctl.h>

namespace rockhopper {

Expected<void> BackgroundThread::start(const char* name, void (*function)(void*), void* argument) {
  name_ = name;
  function_ = function;
  argument_ = argument;
  sigset_t others;
  sigset_t before;
  sigfillset(&others);
  // What the thread does wrong itself, as with memory that is gone, the program's handlers are
  // told.
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    sigdelset(&others, own);
  }
  pthread_sigmask(SIG_SETMASK, &others, &before);
  const int error = pthread_create(&thread_, nullptr, &BackgroundThread::enter, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return fail(ErrorCode::exhausted, "the thread {} cannot be started", name);
  started_ = true;
  return {};
}

void BackgroundThread::join() {
  if (std::exchange(started_, false)) pthread_join(thread_, nullptr);
}

void* BackgroundThread::enter(void* self) {
  const auto& thread = *static_cast<BackgroundThread*>(self);
  pthread_setname_np(pthread_self(), thread.name_);
  // The sleeps of this thread, and of no other, end when they should.
  prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
  thread.function_(thread.argument_);
  return nullptr;
}

}  // namespace rockhopper
