// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "stack/link.h"
#include "stack/net/learning_switch.h"

namespace rockhopper::stack::net {

/// One port as the forwarder sees it.
struct ForwarderPort {
  Link* link;                     ///< not owned
  std::function<bool()> link_up;  ///< whether the other end is there
};

/// Moves packets between links and a LearningSwitch. Single-threaded.
class Forwarder {
 public:
  static constexpr std::uint16_t kBurst = 32;
  /// How often the state of the links is looked at.
  static constexpr std::uint64_t kLinkCheckNs = 10'000'000;

  /// Each of `ports` is a port of the switch, from 0 on; packets of other ports are moved by their
  /// owner. `learning_switch` is not owned.
  Forwarder(LearningSwitch& learning_switch, std::vector<ForwarderPort> ports);

  /// Takes a burst from every port, and sends what waits as far as the links take it. Every packet
  /// is thus offered to a link right after it came in. True if any packet moved.
  bool turn(std::uint64_t now_ns);
  /// The second half of a turn.
  bool transmit(std::uint64_t now_ns);

  [[nodiscard]] const std::vector<ForwarderPort>& ports() const { return ports_; }

 private:
  void check_links(std::uint64_t now_ns);
  [[nodiscard]] bool receive(PortNumber port, std::uint64_t now_ns);
  [[nodiscard]] bool transmit(PortNumber port, std::uint64_t now_ns);
  [[nodiscard]] PortNumber port_count() const { return static_cast<PortNumber>(ports_.size()); }

  LearningSwitch& switch_;
  std::vector<ForwarderPort> ports_;
  std::uint64_t next_link_check_ns_ = 0;
};

}  // namespace rockhopper::stack::net
