// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/background_thread.h"

#include <csignal>
#include <cstdint>
#include <utility>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rockhopper {
namespace {

/// The first version of the kernel's structure, whose header does not go with the C library's.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

/// What Linux allows least.
constexpr std::uint64_t kSliceNs = 100'000;

/// A thread that asks for the processor for a short time only gets it when it wakes, also from one
/// that computes: without, an application that looks at its memory until something comes keeps the
/// thread that brings it waiting for a tick of the kernel (from Linux 6.12 on; before, and for
/// other policies, nothing changes).
void ask_for_short_slices() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime_ns = kSliceNs;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

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
  ask_for_short_slices();
  thread.function_(thread.argument_);
  return nullptr;
}

}  // namespace rockhopper
