// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/device.h"

namespace rockhopper::conformance {

/// The bytes of a script's region, on pages of their own. What a device registers, it puts behind.
struct RegionMemory {
  /// With the content that the script wants; throws Failure when there is no memory.
  explicit RegionMemory(const RegionSpec& spec);

  [[nodiscard]] std::vector<std::uint8_t> content() const;

  struct FreeAligned {
    void operator()(std::byte* memory) const;
  };
  std::string name;
  std::size_t length = 0;
  std::unique_ptr<std::byte, FreeAligned> bytes;
};

/// The region of that name; throws Failure if there is none.
template <typename Region>
[[nodiscard]] Region& find_region(std::vector<Region>& regions, const std::string& name) {
  const auto found = std::find_if(regions.begin(), regions.end(),
                                  [&](const Region& region) { return region.name == name; });
  if (found == regions.end()) throw Failure("no region " + name);
  return *found;
}

}  // namespace rockhopper::conformance
