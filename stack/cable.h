// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <rte_mbuf.h>

#include "stack/error.h"
#include "stack/link.h"

namespace rockhopper::stack {

struct CableConfig {
  std::uint16_t mtu = 4300;      ///< largest IP packet in bytes; a path MTU of 4096 fits
  std::uint32_t packets = 1024;  ///< that are under way in each direction at most, up to 2^16
};

/// Two links of one process that are joined to each other: what is sent at one end is received at
/// the other, in order and without delay. Each end belongs to one thread, which may be that of the
/// other end. Packets are copied, as between two machines, so neither end depends on the other's
/// mbufs. Needs a running EAL; must outlive what uses its ends.
class Cable {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Cable>> create(const CableConfig& config = {});
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;
  ~Cable();

  /// `index` is 0 or 1.
  [[nodiscard]] Link& end(unsigned index);

 private:
  class End;
  struct Wires;
  explicit Cable(std::unique_ptr<Wires> wires);

  std::unique_ptr<Wires> wires_;  ///< outlives the ends
  std::array<std::unique_ptr<End>, 2> ends_;
};

}  // namespace rockhopper::stack
