// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include "stack/error.h"

namespace rockhopper::verbs {

class Progress;

/// A descriptor that a program polls and makes non-blocking as it likes: readable while there are
/// units, one for each event that waits. The events stand elsewhere.
class EventUnits {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<EventUnits>> create();
  EventUnits(const EventUnits&) = delete;
  EventUnits& operator=(const EventUnits&) = delete;
  ~EventUnits();

  [[nodiscard]] int fd() const { return fd_; }
  /// One event more. Does not wait. In a Section.
  void add() noexcept;
  /// Takes a unit, or waits for one if the program has left the descriptor blocking: asleep, or
  /// taking turns where nobody else would move the packets that make one. Returns an errno: EAGAIN,
  /// and of a sleep EINTR. The thread may be cancelled here. Not in a Section.
  [[nodiscard]] int take(Progress& progress);
  /// An event has gone that nobody has taken. Does not wait. In a Section.
  void withdraw() noexcept;

 private:
  explicit EventUnits(int fd) : fd_(fd) {}
  /// Takes a unit; EAGAIN if there is none.
  [[nodiscard]] int take_now();
  /// The program has left the descriptor blocking.
  [[nodiscard]] bool waits() const noexcept;

  const int fd_;
};

}  // namespace rockhopper::verbs
