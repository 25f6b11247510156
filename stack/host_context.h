// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/address_table.h"
#include "stack/host_config.h"
#include "stack/host_counters.h"
#include "stack/host_observer.h"
#include "stack/host_sender.h"
#include "stack/known_headers.h"
#include "stack/timing_wheel.h"
#include "stack/udp_bindings.h"

namespace rockhopper::stack {

/// What the protocols of a host have in common. The host owns it and outlives them.
struct HostContext {
  explicit HostContext(const HostConfig& host_config)
      : config(host_config),
        timers(kTickNs),
        addresses(config.socket.has_value()),
        sender(config, counters) {}
  HostContext(const HostContext&) = delete;
  HostContext& operator=(const HostContext&) = delete;
  ~HostContext() = default;

  static constexpr std::uint64_t kTickNs = 1 << 20;  ///< about a millisecond

  const HostConfig config;
  HostCounters counters;
  TimingWheel timers;
  AddressTable addresses;
  KnownHeaders known_headers;  ///< to be forgotten when addresses, groups or bindings change
  UdpBindings bindings;
  HostSender sender;
  HostObserver* observer = nullptr;  ///< not owned; null: none
};

}  // namespace rockhopper::stack
