// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/event_units.h"

#include <cerrno>
#include <system_error>

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

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
  const std::uint64_t one = 1;
  // Fails or waits only beyond 2^64 events.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

int EventUnits::take() noexcept {
  std::uint64_t unit = 0;
  return read(fd_, &unit, sizeof unit) == sizeof unit ? 0 : errno;
}

void EventUnits::withdraw() noexcept {
  std::uint64_t unit = 0;
  iovec place{&unit, sizeof unit};
  // The descriptor's own flag is the program's, so this one read is told not to wait. Another
  // thread may have taken the unit, and then finds no event and waits again.
  [[maybe_unused]] const ssize_t taken = preadv2(fd_, &place, 1, -1, RWF_NOWAIT);
}

}  // namespace rockhopper::verbs
