// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/event_fd.h"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

namespace rockhopper::stack {

Expected<std::unique_ptr<EventFd>> EventFd::create() {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) {
    return fail(ErrorCode::exhausted, "no eventfd: {}", std::generic_category().message(errno));
  }
  return std::unique_ptr<EventFd>(new EventFd(fd));
}

EventFd::~EventFd() { close(fd_); }

void EventFd::notify() noexcept {
  const std::uint64_t one = 1;
  // Fails only if it is readable anyway.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

bool EventFd::take() noexcept {
  std::uint64_t count = 0;
  return read(fd_, &count, sizeof(count)) == sizeof(count);
}

}  // namespace rockhopper::stack
