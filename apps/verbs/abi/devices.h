// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>

#include "apps/verbs/abi/device_object.h"

namespace rockhopper::verbs {

inline constexpr std::size_t kDevicesMax = 8;
/// With the zero behind it, as /sys would have it.
inline constexpr std::size_t kDeviceNameMax = 32;

/// The devices of this process: made at the first call, and the same for its whole life.
struct Devices {
  std::size_t count;
  DeviceObject* objects;
};
[[nodiscard]] Devices devices();

/// Whether a device may have a name of `size` characters: letters, digits, '_' and '-', and a
/// letter at the front.
[[nodiscard]] bool is_device_name(const char* name, std::size_t size);

/// A number for a node that all processes of a machine and network namespace agree on, and that
/// others hardly have: an EUI-64 that is marked as made up by software. Never 0.
[[nodiscard]] std::uint64_t node_guid(int index);

}  // namespace rockhopper::verbs
