// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "apps/common/page_memory.h"
#include "apps/rh_perf/backend.h"
#include "roce/engine.h"
#include "roce/lock/fallback.h"

namespace rockhopper::apps::perf {

/// Scopes whose lock is taken by compare and swap, one at a time for each queue pair: what
/// LockMode::target is compared with.
class CasLocks {
 public:
  /// All outlive it. Nothing else is posted to the queue pairs, which have one completion queue.
  [[nodiscard]] static Expected<std::unique_ptr<CasLocks>> create(
      roce::Engine& engine, roce::ProtectionDomain pd, std::span<roce::QueuePair* const> qps);
  ~CasLocks();
  CasLocks(const CasLocks&) = delete;
  CasLocks& operator=(const CasLocks&) = delete;

  /// `qp` is an index. The scope is copied.
  [[nodiscard]] roce::PostResult post(std::uint16_t qp, const roce::lock::ScopeBuilder& scope,
                                      std::uint64_t id, std::uint64_t now_ns);
  /// Goes on with all of them; tells those that are complete, with their ids.
  [[nodiscard]] std::size_t poll(roce::CompletionQueue& cq, std::uint64_t now_ns,
                                 std::span<Done> out);

 private:
  struct Holder {
    Holder(roce::QueuePair& qp, const roce::Sge& scratch, const std::uint64_t& scratch_word,
           const roce::lock::FallbackScope::Config& config)
        : lock(qp, scratch, scratch_word, config) {}

    roce::lock::FallbackScope lock;
    std::optional<roce::lock::ScopeBuilder> scope;  ///< none: nothing is outstanding
    roce::lock::ScopeResult result{};
    std::uint64_t id = 0;
  };

  explicit CasLocks(roce::Engine& engine) : engine_(engine) {}

  roce::Engine& engine_;
  PageMemory memory_;  ///< for each queue pair a word that compare and swap returns
  roce::MemoryRegion region_{};
  std::deque<Holder> holders_;  ///< by index of the queue pair
};

}  // namespace rockhopper::apps::perf
