// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string_view>

#include "stack/error.h"

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
  /// others inside. io with the loader's words if a library or the folder cannot be read; of all,
  /// those that cannot be loaded are left out, as the EAL does.
  [[nodiscard]] static Expected<void> load_for(std::string_view device);
};

}  // namespace rockhopper::stack
