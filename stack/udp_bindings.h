// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include <rte_mbuf.h>

#include "stack/link.h"
#include "stack/udp_client.h"

namespace rockhopper::stack {

/// Who takes the datagrams of which port: at most one client for each. They are not owned. What
/// concerns all of them happens in the order in which they were bound.
class UdpBindings {
 public:
  /// Instead of the one before; null: nobody. Not from within a call to a client.
  void bind(std::uint16_t port, UdpClient* client) {
    std::erase_if(bindings_, [&](const Binding& binding) { return binding.port == port; });
    if (client != nullptr) bindings_.push_back({port, client});
  }
  /// Returns null if nobody listens.
  [[nodiscard]] UdpClient* find(std::uint16_t port) const {
    for (const Binding& binding : bindings_) {
      if (binding.port == port) return binding.client;
    }
    return nullptr;
  }

  void begin_receive(std::span<rte_mbuf* const> packets, std::uint64_t now_ns) {
    for (const Binding& binding : bindings_) {
      binding.client->begin_receive(packets, now_ns);
    }
  }
  void end_receive() {
    for (const Binding& binding : bindings_) {
      binding.client->end_receive();
    }
  }
  /// Each client is asked, with what room the ones before have left, which may be none.
  [[nodiscard]] std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) {
    std::uint16_t taken = 0;
    for (const Binding& binding : bindings_) {
      const auto room = static_cast<std::uint16_t>(count - taken);
      const std::uint16_t more = binding.client->transmit(packets + taken, room, now_ns);
      assert(more <= room);
      taken = static_cast<std::uint16_t>(taken + more);
    }
    return taken;
  }
  /// Returns the earliest one of all clients; kNever without any.
  [[nodiscard]] std::uint64_t next_deadline_ns() const {
    std::uint64_t next_ns = kNever;
    for (const Binding& binding : bindings_) {
      next_ns = std::min(next_ns, binding.client->next_deadline_ns());
    }
    return next_ns;
  }

 private:
  struct Binding {
    std::uint16_t port;
    UdpClient* client;
  };
  std::vector<Binding> bindings_;
};

}  // namespace rockhopper::stack
