// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "roce/wire/qpn.h"

namespace rockhopper::roce {

/// The numbers of a port's queue pairs, where several engines that do not know of each other have
/// the port together. Of a number its low 16 bits count: no two queue pairs of the port share them.
class QpnAllocator {
 public:
  QpnAllocator() = default;
  QpnAllocator(const QpnAllocator&) = delete;
  QpnAllocator& operator=(const QpnAllocator&) = delete;
  virtual ~QpnAllocator() = default;

  /// Takes the number, until release(); false if another engine has it.
  [[nodiscard]] virtual bool claim(wire::Qpn number) = 0;
  virtual void release(wire::Qpn number) = 0;
};

}  // namespace rockhopper::roce
