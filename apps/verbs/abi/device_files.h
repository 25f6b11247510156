// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

namespace rockhopper::verbs {

/// A file of /sys/class/infiniband/DEVICE that does not depend on addresses.
struct DeviceFile {
  const char* name;
  const char* text;  ///< null: the GUID of the node
};
inline constexpr DeviceFile kDeviceFiles[] = {
    {"node_type", "1: CA"},      {"node_guid", nullptr},         {"sys_image_guid", nullptr},
    {"node_desc", "Rockhopper"}, {"fw_ver", ROCKHOPPER_VERSION}, {"hw_rev", "0"},
    {"hca_type", "Rockhopper"},  {"board_id", "Rockhopper"},
};

/// The numbers of /dev/infiniband/rdma_cm: the kernel's device class "misc", where the minor one is
/// dynamic.
inline constexpr unsigned kRdmaCmMajor = 10;
inline constexpr unsigned kRdmaCmMinor = 58;

/// Writes a GUID as /sys has it, as 0200:00ff:fe00:0001. `to` has room for 20 characters.
void write_guid(std::uint64_t guid, char* to, std::size_t size);

/// The contents of `file`, one of kDeviceFiles, of the device whose folder in /sys that is, with a
/// zero behind it. Returns their size, or -1 and errno.
[[nodiscard]] int read_device_file(const char* folder, const char* file, char* to,
                                   std::size_t size);

}  // namespace rockhopper::verbs
