// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>

namespace rockhopper::verbs {

/// What a node's thread sleeps on while there is nothing to do, and what wakes it: a packet, or
/// another thread of the process.
class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  virtual ~Doorbell() = default;

  /// From now until the end of sleep() whoever sends a packet rings. Returns false if one waits
  /// already: then do not sleep. In a Section; of the one thread that sleeps.
  [[nodiscard]] virtual bool arm() noexcept = 0;
  /// Returns at a ring since the last arm(), when CLOCK_MONOTONIC reaches `deadline_ns`
  /// (UINT64_MAX: never), or for no reason. Not in a Section.
  virtual void sleep(std::uint64_t deadline_ns) noexcept = 0;
  /// Any thread of this process, armed or not.
  virtual void ring() noexcept = 0;
};

/// Rung by threads of this process only.
class LocalDoorbell final : public Doorbell {
 public:
  [[nodiscard]] bool arm() noexcept override;
  void sleep(std::uint64_t deadline_ns) noexcept override;
  void ring() noexcept override;

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::uint32_t seen_ = 0;
};

}  // namespace rockhopper::verbs
