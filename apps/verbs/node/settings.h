// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/error.h"
#include "stack/fault_config.h"
#include "stack/kernel_addresses.h"

namespace rockhopper::verbs {

/// Which threads move packets.
enum class ProgressMode : std::uint8_t {
  adaptive,     ///< the application's while it polls, one of ours while it does not
  thread,       ///< ours alone
  inline_only,  ///< the application's alone: while it makes no call, peers get no answer
};

/// The way to other hosts.
enum class UplinkKind : std::uint8_t {
  none,
  udp,        ///< UDP sockets of the kernel, whose addresses it has
  rh_switch,  ///< the rh-switch that has the segment as a port
};

/// What the environment says of the device.
struct Settings {
  /// The GID table, from index 0 on; never empty.
  std::vector<stack::DeviceAddress> addresses{};
  std::string pcap{};  ///< path of a capture; empty: none
  std::optional<stack::FaultConfig> faults{};
  ProgressMode progress = ProgressMode::adaptive;
  UplinkKind uplink = UplinkKind::none;

  /// Reads ROCKHOPPER_ADDRESSES ("192.0.2.1/24,fd00::1/64"; default: the kernel's, and without
  /// any 198.18.0.1/15), ROCKHOPPER_PCAP ("%p" in it is the process's number), ROCKHOPPER_FAULTS
  /// (stack::parse_faults), ROCKHOPPER_PROGRESS (adaptive, thread, inline) and ROCKHOPPER_UPLINK
  /// (none, udp, switch). An error's message names the variable.
  [[nodiscard]] static Expected<Settings> read();
};

/// `text` with the process's number for each "%p".
[[nodiscard]] std::string capture_path(std::string_view text);

/// Reads ROCKHOPPER_UPLINK's value, which may be empty, as Settings::read() does.
[[nodiscard]] Expected<UplinkKind> parse_uplink(std::string_view text);

/// Reads a list of addresses with prefix lengths as Settings::read() does. Not empty. Those of the
/// loopback device are good for an uplink by UDP alone.
[[nodiscard]] Expected<std::vector<stack::DeviceAddress>> parse_addresses(std::string_view text,
                                                                          UplinkKind uplink);

}  // namespace rockhopper::verbs
