// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "apps/services/publisher/layout.h"

namespace rockhopper::publisher {

/// What a publisher says of a store, in its directory and to those that it grants it to (PB-30).
struct StoreInfo {
  static constexpr std::size_t kNameMax = 63;

  std::uint16_t id = 0;
  std::uint16_t layout = layout_of(StoreKind::log);
  std::string name;  ///< 1 to kNameMax bytes
  std::uint64_t epoch = 0;
  std::uint64_t ring_bytes = 0;  ///< conflated: of all slots
  std::uint32_t message_max = 0;
  std::uint64_t heartbeat_ns = 0;  ///< the interval of its heart-beats; 0: it has none

  [[nodiscard]] StoreKind kind() const { return static_cast<StoreKind>(layout & 0xff); }
  friend bool operator==(const StoreInfo&, const StoreInfo&) = default;
};

}  // namespace rockhopper::publisher
