// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "apps/services/dag/client.h"
#include "apps/services/dag/grant.h"
#include "apps/services/dag/schedule/local_memory.h"
#include "dc/owned.h"
#include "roce/completion_queue.h"
#include "roce/owned.h"

namespace rockhopper::dag {

/// A worker's own stream to the home: READs, atomics and WRITEs of a few bytes, executed in the
/// order in which they were posted. Whoever posts asks for room first.
class HomeLink {
 public:
  /// All must outlive it; `timing` says how connections are made.
  [[nodiscard]] static Expected<std::unique_ptr<HomeLink>> create(
      roce::Engine& engine, dc::Endpoint& endpoint, roce::ProtectionDomain pd,
      const roce::AddressVector& av, const Grant& grant, const ClientConfig& timing);
  HomeLink(const HomeLink&) = delete;
  HomeLink& operator=(const HomeLink&) = delete;

  /// For so many requests. Looks at the board need not ask, so that nothing keeps them waiting: the
  /// lease is not renewed without them.
  [[nodiscard]] std::size_t room() const;
  /// `wr_id` is told with the completion; requests that are not signaled complete only when they
  /// fail.
  void read(std::uint64_t wr_id, roce::MemoryKey rkey, std::uint64_t address,
            const LocalMemory& memory, std::byte* to, std::uint32_t length, bool signaled);
  void compare_swap(std::uint64_t wr_id, roce::MemoryKey rkey, std::uint64_t address,
                    std::uint64_t compare, std::uint64_t swap, const LocalMemory& memory,
                    std::byte* found, bool signaled);
  void fetch_add(std::uint64_t wr_id, roce::MemoryKey rkey, std::uint64_t address,
                 std::uint64_t add, const LocalMemory& memory, std::byte* found, bool signaled);
  /// Copied at once; up to kWriteMax bytes.
  static constexpr std::size_t kWriteMax = 64;
  void write(std::uint64_t wr_id, roce::MemoryKey rkey, std::uint64_t address,
             std::span<const std::byte> bytes, bool signaled);

  [[nodiscard]] std::size_t poll(std::span<roce::Completion> completions) {
    return cq_->poll(completions);
  }
  [[nodiscard]] bool quiet() const { return dci_->send_queue_depth() == 0; }

 private:
  explicit HomeLink(const Grant& grant) : target_(grant.target), access_key_(grant.access_key) {}
  void post(roce::SendWr wr, bool signaled);

  wire::Qpn target_;
  std::uint64_t access_key_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::Owned<roce::AddressHandle> ah_;
  dc::Owned<dc::Dci> dci_;
};

}  // namespace rockhopper::dag
