// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <rte_common.h>

namespace rockhopper::roce::lock {

/// What has happened to the locks of a region, at all engines that serve it together (LK-34).
#define ROCKHOPPER_LOCK_STATISTICS(X)                                         \
  X(grants, "locks taken, by peers and by threads of this process")           \
  X(immediate_grants, "of these, at the first look")                          \
  X(waits, "requests that had to wait")                                       \
  X(iterations, "times that a word was looked at for those that wait or ask") \
  X(failures, "requests that ended without the lock")                         \
  X(cancels, "of these, canceled by those that asked")                        \
  X(lease_expiries, "locks taken from their holder")                          \
  X(foreign_releases, "releases by others than the lock's holder")            \
  X(aborts, "locks freed as their connection failed")                         \
  X(max_wait_ns, "longest time from request to grant")

/// Memory of lock words and of the data that they guard: any part of it can be a word. Shared by
/// all engines (shards) that serve it and by the threads of the process (LocalLock); its members
/// may be called from any of them. The memory is the caller's, and the region outlives all its
/// users.
class Region {
 public:
  struct Config {
    /// Above every token of an earlier life of the same data; for example the seconds of the day's
    /// clock in the upper half.
    std::uint64_t first_token = 1;
    std::uint32_t lease_us = 100'000;         ///< of requests that ask for none, above 0
    std::uint32_t max_lease_us = 10'000'000;  ///< of requests that ask for more
    std::uint32_t retry_us = 50;  ///< between looks at a word that is waited for; above 0
  };
  struct Statistics {
#define X(name, text) std::atomic<std::uint64_t> name;
    ROCKHOPPER_LOCK_STATISTICS(X)
#undef X
  };

  Region(void* base, std::size_t length, const Config& config)
      : next_token_(config.first_token),
        base_(static_cast<std::byte*>(base)),
        length_(length),
        config_(config) {}
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] const Config& config() const { return config_; }
  /// All 8 bytes of the word are the region's.
  [[nodiscard]] bool contains(const void* word) const {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(word) - reinterpret_cast<std::uintptr_t>(base_);
    return offset < length_ && length_ - offset >= sizeof(std::uint64_t);
  }

  /// Returns another fencing token each time. To be drawn while the lock is held: those of one word
  /// increase (LK-30).
  [[nodiscard]] std::uint64_t draw_token() {
    return next_token_.fetch_add(1, std::memory_order_relaxed);
  }

  /// A word with waiters was changed by an engine or a thread that may not serve them all.
  void note_release() { releases_.fetch_add(1, std::memory_order_release); }
  /// Another number after each of those.
  [[nodiscard]] std::uint64_t releases() const { return releases_.load(std::memory_order_acquire); }

  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  using Statistic = std::atomic<std::uint64_t> Statistics::*;
  void count(Statistic which, std::uint64_t n = 1) {
    (statistics_.*which).fetch_add(n, std::memory_order_relaxed);
  }
  void note_wait(std::uint64_t ns) {
    std::uint64_t longest = statistics_.max_wait_ns.load(std::memory_order_relaxed);
    while (ns > longest &&
           !statistics_.max_wait_ns.compare_exchange_weak(longest, ns, std::memory_order_relaxed)) {
    }
  }
  /// Calls `visit` for each statistic.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const {
#define X(name, text) visit(context, #name, statistics_.name.load(std::memory_order_relaxed));
    ROCKHOPPER_LOCK_STATISTICS(X)
#undef X
  }
  /// Calls `visit` with the name of each statistic and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context) {
#define X(name, text) visit(context, #name, text);
    ROCKHOPPER_LOCK_STATISTICS(X)
#undef X
  }

  // Engines that serve it.
  void add_server() { servers_.fetch_add(1, std::memory_order_relaxed); }
  void remove_server() { servers_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] bool has_several_servers() const {
    return servers_.load(std::memory_order_relaxed) > 1;
  }

 private:
  // What each grant writes, and what others look at meanwhile.
  alignas(RTE_CACHE_LINE_SIZE) std::atomic<std::uint64_t> next_token_;
  Statistics statistics_;
  alignas(RTE_CACHE_LINE_SIZE) std::atomic<std::uint64_t> releases_{0};
  std::byte* base_;
  std::size_t length_;
  Config config_;
  std::atomic<std::uint32_t> servers_{0};
};

}  // namespace rockhopper::roce::lock
