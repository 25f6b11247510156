// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/sim/station.h"

#include <algorithm>

namespace rockhopper::stack::sim {
namespace {

/// A station that has more to do at once, but could not do it, is asked again after this: the time
/// of a simulation must go on.
constexpr std::uint64_t kAgainNs = 100;

}  // namespace

Station::Station(EventQueue& events, const Clock& clock, Nic& nic, Link& link, Protocol& protocol,
                 Application* application)
    : events_(events),
      nic_(nic),
      link_(link),
      protocol_(protocol),
      application_(application),
      worker_(link, protocol, clock) {
  nic_.set_listener(this);
}

Station::~Station() { nic_.set_listener(nullptr); }

void Station::on_packets(std::uint64_t now_ns) {
  if (now_ns < last_turn_ns_ + poll_interval_ns_) {
    wake(last_turn_ns_ + poll_interval_ns_);
  } else {
    run(now_ns);
  }
}

void Station::run(std::uint64_t now_ns) {
  last_turn_ns_ = now_ns;
  while (worker_.receive(now_ns) == Worker::kBurst) {
  }
  std::uint64_t next_ns = kNever;
  std::uint64_t deadline_ns = kNever;
  for (bool again = true; again;) {
    if (application_ != nullptr) next_ns = application_->turn(now_ns);
    while (worker_.transmit(now_ns) == Worker::kBurst) {
    }
    deadline_ns = protocol_.next_deadline_ns();
    again = false;
    if (!worker_.backlogged() && deadline_ns <= now_ns) {
      // An acknowledgement may wait one turn for others.
      again = worker_.transmit(now_ns) > 0;
      deadline_ns = protocol_.next_deadline_ns();
    }
  }
  deadline_ns = std::min(deadline_ns, link_.next_deadline_ns());
  if (deadline_ns > now_ns) {
    next_ns = std::min(next_ns, deadline_ns);
  } else if (!worker_.backlogged()) {
    next_ns = std::min(next_ns, now_ns + kAgainNs);
  }
  events_.schedule(*this, next_ns <= now_ns ? now_ns + kAgainNs : next_ns);
}

}  // namespace rockhopper::stack::sim
