// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <set>

#include "roce/qpn_allocator.h"

namespace rockhopper::test {

/// The numbers of a port that another process has too: those in `others` are refused.
class TakenNumbers final : public roce::QpnAllocator {
 public:
  [[nodiscard]] bool claim(wire::Qpn number) override {
    const std::uint32_t low = number.value & 0xffff;
    return !others.contains(low) && own.insert(low).second;
  }
  void release(wire::Qpn number) override { own.erase(number.value & 0xffff); }

  std::set<std::uint32_t> others;
  std::set<std::uint32_t> own;
};

}  // namespace rockhopper::test
