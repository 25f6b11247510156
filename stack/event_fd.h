// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>

#include "stack/error.h"
#include "stack/notifier.h"

namespace rockhopper::stack {

/// An eventfd: readable from a notify() until the next take(). A thread sleeps on it with poll(),
/// epoll or select. Any thread may call any function.
class EventFd final : public Notifier {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<EventFd>> create();
  ~EventFd() override;

  /// For poll() and the like; remains this object's.
  [[nodiscard]] int fd() const { return fd_; }
  void notify() noexcept override;
  /// Returns true if notify() was called since the last time. Does not wait.
  bool take() noexcept;

 private:
  explicit EventFd(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace rockhopper::stack
