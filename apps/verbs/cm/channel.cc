// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/cm/channel.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rockhopper::verbs::cm {
namespace {

/// Writes a byte. That the program has closed the other end is no reason to end it by a signal.
void write_a_byte(int fd) {
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const char byte = 0;
  if (::write(fd, &byte, 1) < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once{};
    (void)sigtimedwait(&pipe_signal, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

Expected<std::unique_ptr<Channel>> Channel::open(int flags, int& fd) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(ErrorCode::exhausted, "no pipe: {}", std::generic_category().message(errno));
  }
  stack::Descriptor writer(ends[1]);
  struct stat found = {};
  if (::fstat(ends[0], &found) != 0 || ::fcntl(writer.fd(), F_SETFL, O_NONBLOCK) != 0 ||
      ::fcntl(ends[0], F_SETFL, flags & O_NONBLOCK) != 0 ||
      ::fcntl(ends[0], F_SETFD, (flags & O_CLOEXEC) != 0 ? FD_CLOEXEC : 0) != 0) {
    const int error = errno;
    (void)::close(ends[0]);
    return fail(ErrorCode::io, "a pipe cannot be used: {}", std::generic_category().message(error));
  }
  fd = ends[0];
  return std::unique_ptr<Channel>(new Channel(std::move(writer), found.st_dev, found.st_ino));
}

Channel::Channel(stack::Descriptor writer, dev_t device, ino_t inode)
    : writer_(std::move(writer)), device_(device), inode_(inode) {}

bool Channel::is_closed() const {
  pollfd end{.fd = writer_.fd(), .events = 0, .revents = 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0;
}

void Channel::push(const QueuedEvent& event) {
  events_.push_back(event);
  if (events_.size() == 1) write_a_byte(writer_.fd());
}

QueuedEvent Channel::pop(int fd) {
  const QueuedEvent event = events_.front();
  events_.pop_front();
  if (events_.empty()) drain(fd);
  return event;
}

void Channel::drain(int fd) {
  char byte = 0;
  // Nobody else reads, so that the byte is there.
  [[maybe_unused]] const ssize_t size = ::read(fd, &byte, 1);
}

}  // namespace rockhopper::verbs::cm
