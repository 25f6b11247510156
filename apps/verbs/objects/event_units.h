// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include "stack/error.h"

namespace rockhopper::verbs {

/// A descriptor that a program polls and makes non-blocking as it likes: readable while there are
/// units, one for each event that waits. The events stand elsewhere.
class EventUnits {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<EventUnits>> create();
  EventUnits(const EventUnits&) = delete;
  EventUnits& operator=(const EventUnits&) = delete;
  ~EventUnits();

  [[nodiscard]] int fd() const { return fd_; }
  /// One event more. Does not wait.
  void add() noexcept;
  /// Takes a unit, or waits for one if the program has left the descriptor blocking; returns an
  /// errno: EAGAIN, EINTR. Not in a Section.
  [[nodiscard]] int take() noexcept;
  /// An event has gone that nobody has taken. Does not wait.
  void withdraw() noexcept;

 private:
  explicit EventUnits(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace rockhopper::verbs
