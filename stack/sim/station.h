// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/application.h"
#include "stack/clock.h"
#include "stack/protocol.h"
#include "stack/sim/event_queue.h"
#include "stack/sim/nic.h"
#include "stack/worker.h"

namespace rockhopper::stack::sim {

/// A protocol and its application at a NIC of a simulated network: has its turn when packets
/// arrive, when the NIC has room again, and at its deadlines.
class Station final : private NicListener, private Event {
 public:
  /// None is owned. `link` is `nic` or what wraps it. The application may be null.
  Station(EventQueue& events, const Clock& clock, Nic& nic, Link& link, Protocol& protocol,
          Application* application);
  ~Station() override;

  /// Gives the station a turn at `time_ns`: at the start, or for an application with news.
  void wake(std::uint64_t time_ns) { events_.schedule_by(*this, time_ns); }
  /// Lets time pass between turns: packets that arrive within it are handled together, as by a host
  /// that polls. 0: as each arrives.
  void set_poll_interval(std::uint64_t interval_ns) { poll_interval_ns_ = interval_ns; }
  [[nodiscard]] const WorkerCounters& counters() const { return worker_.counters(); }

 private:
  void on_packets(std::uint64_t now_ns) override;
  void on_room(std::uint64_t now_ns) override { wake(now_ns); }
  void run(std::uint64_t now_ns) override;

  EventQueue& events_;
  Nic& nic_;
  Link& link_;
  Protocol& protocol_;
  Application* application_;
  Worker worker_;
  std::uint64_t poll_interval_ns_ = 0;
  std::uint64_t last_turn_ns_ = 0;
};

}  // namespace rockhopper::stack::sim
