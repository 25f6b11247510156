// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string_view>

namespace rockhopper::stack {

/// DPDK's folder of drivers. The EAL loads all of it when it starts, 128 libraries on Debian, which
/// is most of what a short program does; one that plugs its devices by name needs one or two of
/// them. DPDK has no option to leave the folder out, but asks with stat64() whether it is there.
/// Programs linked with hidden_driver_folder.cc answer no while an EAL without arguments starts;
/// in others nothing changes. Main thread only.
class DriverFolder {
 public:
  /// The folder is hidden as long as it lives.
  class Hidden {
   public:
    Hidden();
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;
    ~Hidden();
  };

  /// Whether `path` is the folder and somebody hides it; notes that it was asked for.
  [[nodiscard]] static bool hides(std::string_view path);

  /// Loads what drives a device such as "net_memif0,role=client", if the EAL has not: the library
  /// whose name the device's begins with, or all where no name says which, or where a device has
  /// others inside. A library that cannot be loaded is left out: who plugs the device then sees
  /// that it has no driver.
  static void load_for(std::string_view device);
};

}  // namespace rockhopper::stack
