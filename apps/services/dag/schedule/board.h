// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "apps/services/dag/record.h"
#include "apps/services/dag/schedule/deque.h"

/// What a server shows of its runs and its workers, in memory that each client may READ (the
/// application memory of dag::Server) and in which it may do atomics. Little endian. The server
/// never reads its own state back from it.
///
///     BoardHead | pool: DequeHead and rings | RunSlot x runs | WorkerSlot x workers
///
/// The pool is the deque of ready nodes that no worker has: a run's first nodes, and what lost
/// workers have left. A worker that advances its top owns what it has taken: a worker that is lost
/// then has its ready nodes put back, and a fenced one cannot take anything.
namespace rockhopper::dag {

inline constexpr std::uint32_t kBoardMagic = 0x42474452;  // "RDGB" in memory
inline constexpr std::uint32_t kBoardVersion = 1;
inline constexpr std::uint32_t kBoardRunsMax = 256;
inline constexpr std::uint32_t kBoardWorkersMax = 4096;

struct BoardLayout {
  std::uint32_t runs = 16;            ///< 1 to kBoardRunsMax
  std::uint32_t workers = 64;         ///< 1 to kBoardWorkersMax
  std::uint32_t pool_entries = 4096;  ///< of each class of priority, a power of 2

  [[nodiscard]] constexpr DequeLayout pool() const { return {.capacity = pool_entries}; }
  [[nodiscard]] constexpr std::uint64_t pool_offset() const { return 64; }
  [[nodiscard]] constexpr std::uint64_t run_offset(std::uint32_t slot) const;
  [[nodiscard]] constexpr std::uint64_t worker_offset(std::uint32_t slot) const;
  [[nodiscard]] constexpr std::uint64_t bytes() const;
};

struct BoardHead {
  std::uint32_t magic = kBoardMagic;
  std::uint32_t version = kBoardVersion;
  std::uint32_t runs = 0;
  std::uint32_t workers = 0;
  std::uint32_t pool_entries = 0;
  std::uint32_t reserved = 0;
  std::uint64_t generation = 0;  ///< another one whenever a run or worker slot has changed
  std::array<std::uint64_t, 4> reserved_2{};
};
static_assert(sizeof(BoardHead) == 64);

/// A run of a home; never used again.
enum class RunId : std::uint64_t {};

enum class RunPhase : std::uint32_t {
  none = 0,
  checking = 1,  ///< submitted; its graph is being examined
  refused = 2,   ///< the text says why; nothing of it has been stored
  running = 3,
  complete = 4,  ///< each node is released
  failed = 5,    ///< a node has failed too often; the text says which and why
  canceled = 6,
  ending = 7,  ///< failed or canceled, and workers still run nodes of it
};

/// A run, as everybody can see it. `sequence` is odd while the server changes the slot, and another
/// one afterwards: a reader that finds it odd, or changed behind it, READs again.
struct RunSlot {
  std::uint64_t sequence = 0;
  std::uint64_t id = 0;  ///< never used again by this server
  RunPhase phase = RunPhase::none;
  std::uint32_t priority = 0;  ///< class, below kPriorityClasses
  std::uint32_t nodes = 0;
  std::uint32_t edges = 0;
  std::uint64_t completed = 0;  ///< nodes released; workers add to it (DG-40). After losses about.
  std::uint64_t first_incarnation = 0;  ///< of node 0's record; node i has i more
  /// Where the records of its nodes are: no entry of a deque that leads elsewhere is this run's. 0
  /// bytes: not told.
  std::uint64_t records_address = 0;
  std::uint64_t records_bytes = 0;
  std::uint64_t reserved = 0;
  std::uint64_t lost = 0;        ///< nodes put back because their worker was lost
  std::uint64_t retried = 0;     ///< nodes put back because a task had failed
  std::array<char, 48> name{};   ///< zeros behind it
  std::array<char, 120> text{};  ///< of a refusal or failure, zeros behind it
};
static_assert(sizeof(RunSlot) == 256);
inline constexpr std::uint64_t kRunCompletedOffset = 32;
static_assert(offsetof(RunSlot, completed) == kRunCompletedOffset);

/// A worker, as others reach it for stealing.
struct WorkerSlot {
  std::uint64_t sequence = 0;  ///< as RunSlot's
  std::uint32_t client = 0;    ///< its number at the server; 0: nobody is here
  std::uint32_t target = 0;    ///< its DC target's number
  std::uint64_t access_key = 0;
  std::array<std::byte, 16> gid{};
  std::uint32_t deque_key = 0;  ///< rkey of its deques, from address 0 on
  std::uint32_t deque_capacity = 0;
  std::uint32_t path_mtu = 0;  ///< bytes
  std::uint32_t reserved = 0;
  std::array<char, 32> name{};
  std::array<std::uint64_t, 5> reserved_2{};
};
static_assert(sizeof(WorkerSlot) == 128);

constexpr std::uint64_t BoardLayout::run_offset(std::uint32_t slot) const {
  return pool_offset() + whole_lines(pool().bytes()) + std::uint64_t{slot} * sizeof(RunSlot);
}
constexpr std::uint64_t BoardLayout::worker_offset(std::uint32_t slot) const {
  return run_offset(runs) + std::uint64_t{slot} * sizeof(WorkerSlot);
}
constexpr std::uint64_t BoardLayout::bytes() const { return worker_offset(workers); }

[[nodiscard]] std::string_view to_string(RunPhase phase);
/// A name or text of a slot, whatever its bytes are.
[[nodiscard]] std::string_view text_of(std::span<const char> zero_padded);

}  // namespace rockhopper::dag
