// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <infiniband/verbs.h>

namespace rockhopper::verbs {

/// A device as the thin library lists it. It is never freed and never moves: programs compare the
/// pointers of two lists, and use them behind ibv_free_device_list().
///
/// libmlx5 and libefa take every device for a `struct verbs_device` of rdma-core, and ask whether
/// its `ops`, the pointer behind the public part, are their own ones. Hence that pointer, which is
/// that of nobody, and room behind it for what they might read.
struct DeviceObject {
  ibv_device device;
  const void* foreign_ops;
  std::byte zeros[512 - sizeof(void*)];

  // The members from here on are ours alone. Numbers are as programs are given them.
  int index;           ///< of ibv_get_device_index(): 0 for rh0
  std::uint64_t guid;  ///< of the node, in host byte order; never 0
};

/// The object of a device that the thin library has listed.
[[nodiscard]] inline const DeviceObject& object_of(const ibv_device& device) {
  static_assert(std::is_standard_layout_v<DeviceObject> && offsetof(DeviceObject, device) == 0);
  return reinterpret_cast<const DeviceObject&>(device);
}

}  // namespace rockhopper::verbs
