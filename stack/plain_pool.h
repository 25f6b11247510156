// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "stack/error.h"
#include "stack/private_pages.h"

namespace rockhopper::stack {

struct PlainPoolConfig {
  std::uint32_t size = 4096;  ///< number of mbufs, 1 to 2^20
  /// Bytes of data that a buffer holds, without headroom: 1 to 65,535 less the headroom.
  std::uint16_t data_room = RTE_MBUF_DEFAULT_DATAROOM;
};

/// A packet mempool in ordinary memory, for a process in which no EAL runs: a library cannot start
/// one, as that changes the process, and works only once in it. The mbuf that was freed last is
/// given out first. One thread at a time, also for what is allocated from it and freed into it.
class PlainPool {
 public:
  /// Errors: `invalid_argument`, `exhausted`.
  [[nodiscard]] static Expected<std::unique_ptr<PlainPool>> create(const PlainPoolConfig& config);
  PlainPool(const PlainPool&) = delete;
  PlainPool& operator=(const PlainPool&) = delete;
  /// Every mbuf must have come back before.
  ~PlainPool();

  [[nodiscard]] rte_mempool* get() const { return pool_; }
  [[nodiscard]] std::uint32_t in_use() const;

 private:
  PlainPool() = default;
  [[nodiscard]] int set_up(const PlainPoolConfig& config);

  PrivatePages memory_;          ///< of the pool and of all that is in it
  rte_mempool* pool_ = nullptr;  ///< in that memory
};

}  // namespace rockhopper::stack
