// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::stack {

/// What runs beside a protocol on its thread: posts work, takes completions. The same object runs
/// on an lcore (Worker::launch) and in virtual time (sim::Station).
class Application {
 public:
  Application() = default;
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;
  virtual ~Application() = default;
  /// Called in each turn, between receiving and sending. Returns when it wants to be called again
  /// if no packet moves before; kNever if it does not. On an lcore it may be called earlier.
  virtual std::uint64_t turn(std::uint64_t now_ns) = 0;
};

}  // namespace rockhopper::stack
