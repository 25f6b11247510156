// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/event_units.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "apps/verbs/node/progress.h"
#include "stack/uncancelled.h"

namespace rockhopper::verbs {

Expected<std::unique_ptr<EventUnits>> EventUnits::create() {
  const int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) {
    return fail(ErrorCode::exhausted, "no eventfd: {}", std::generic_category().message(errno));
  }
  return std::unique_ptr<EventUnits>(new EventUnits(fd));
}

EventUnits::~EventUnits() { close(fd_); }

void EventUnits::add() noexcept {
  const stack::Uncancelled uncancelled;
  const std::uint64_t one = 1;
  // Fails or waits only beyond 2^64 events.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

int EventUnits::take(Progress& progress) {
  if (progress.is_inline_only()) {
    while (true) {
      if (const int error = take_now(); error != EAGAIN || !waits()) return error;
      (void)progress.turn_of_application();
    }
  }
  std::uint64_t unit = 0;
  return read(fd_, &unit, sizeof unit) == sizeof unit ? 0 : errno;
}

int EventUnits::take_now() {
  std::uint64_t unit = 0;
  iovec place{&unit, sizeof unit};
  // The descriptor's own flag is the program's, so this one read is told not to wait.
  return preadv2(fd_, &place, 1, -1, RWF_NOWAIT) == sizeof unit ? 0 : errno;
}

bool EventUnits::waits() const noexcept {
  const int flags = fcntl(fd_, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

void EventUnits::withdraw() noexcept {
  const stack::Uncancelled uncancelled;
  // Another thread may have taken the unit, and then finds no event and waits again.
  [[maybe_unused]] const int error = take_now();
}

}  // namespace rockhopper::verbs
