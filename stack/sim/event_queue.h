// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rockhopper::stack::sim {

class EventQueue;

/// Something that happens at one time to come, or at none. Leaves its queue when destroyed.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event();
  /// Its time has come; it is in no queue now and may schedule itself again.
  virtual void run(std::uint64_t now_ns) = 0;
  [[nodiscard]] bool scheduled() const { return queue_ != nullptr; }

 private:
  friend class EventQueue;
  EventQueue* queue_ = nullptr;
  std::size_t place_ = 0;  ///< in its heap
};

/// The events of a simulation in the order of their times, and among equal times in that of their
/// scheduling, so that a run is the same each time. Scheduling costs the logarithm of the number of
/// events, of which there is one an actor. Events are not owned.
class EventQueue {
 public:
  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue();

  /// Also moves an event that is scheduled; kNever takes it out.
  void schedule(Event& event, std::uint64_t time_ns);
  /// schedule(), unless the event comes earlier already.
  void schedule_by(Event& event, std::uint64_t time_ns);
  void cancel(Event& event);

  /// kNever if nothing is to happen.
  [[nodiscard]] std::uint64_t next_ns() const;
  /// Takes the next event out and runs it at its time. Requires that there is one.
  void run_next();

 private:
  struct Entry {
    std::uint64_t time_ns;
    std::uint64_t order;
    Event* event;
    [[nodiscard]] bool before(const Entry& other) const {
      return time_ns != other.time_ns ? time_ns < other.time_ns : order < other.order;
    }
  };
  void place(std::size_t place, const Entry& entry);
  void sift_up(std::size_t place, const Entry& entry);
  void sift_down(std::size_t place, const Entry& entry);
  void remove(std::size_t place);

  std::vector<Entry> heap_;  ///< each entry before its four children
  std::uint64_t next_order_ = 0;
};

}  // namespace rockhopper::stack::sim
