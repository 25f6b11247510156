// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include "stack/udp_datagram.h"

namespace rockhopper::stack {

/// Who takes the datagrams of which port: at most one for each. Not owned.
class UdpBindings {
 public:
  /// Instead of the one before; null: nobody.
  void bind(std::uint16_t port, UdpHandler* handler) {
    std::erase_if(bindings_, [&](const Binding& binding) { return binding.port == port; });
    if (handler != nullptr) bindings_.push_back({port, handler});
  }
  /// Returns null if nobody listens.
  [[nodiscard]] UdpHandler* find(std::uint16_t port) const {
    for (const Binding& binding : bindings_) {
      if (binding.port == port) return binding.handler;
    }
    return nullptr;
  }

 private:
  struct Binding {
    std::uint16_t port;
    UdpHandler* handler;
  };
  std::vector<Binding> bindings_;
};

}  // namespace rockhopper::stack
