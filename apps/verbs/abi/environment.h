// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::verbs {

// What rh-run tells the libraries of a program, and what a user may set without it.

/// "off": no device is listed. The system's devices are seen by a program that does not load this
/// library; rh-run then runs one without it.
inline constexpr char kVerbsVariable[] = "ROCKHOPPER_VERBS";
/// The names of the devices, with commas between them. Default: rh0.
inline constexpr char kDevicesVariable[] = "ROCKHOPPER_DEVICES";
inline constexpr char kDefaultDevices[] = "rh0";
/// The folder that has sys/class/infiniband and dev/infiniband as programs shall see them.
inline constexpr char kTreeVariable[] = "ROCKHOPPER_TREE";

}  // namespace rockhopper::verbs
