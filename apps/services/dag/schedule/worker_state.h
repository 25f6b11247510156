// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/schedule/node_state.h"
#include "apps/services/dag/schedule/worker.h"

namespace rockhopper::dag {

/// What a node that a worker has is waiting for, in the order of its way.
enum class Worker::Stage : std::uint8_t {
  free,
  looking,     ///< READ of its record, as it has an affinity
  tracing,     ///< READs of the predecessors' states, whose workers matter
  claiming,    ///< CAS of its state, READ of its record
  placing,     ///< READs of the predecessors' output places
  reading,     ///< READs of the predecessors' outputs
  prepared,    ///< the executor
  running,     ///< the same
  storing,     ///< an arena, then the WRITE of the output
  committing,  ///< WRITE of place and state, the first FETCH_ADDs of successors
  successors,  ///< more of them
  directing,   ///< READs of successors that have become ready and have an affinity
  waiting,     ///< time, for the edges that want it
  releasing,   ///< WRITE of its state, when all successors have been told
  returning,   ///< WRITE of its state: pending, or canceled
  failing,     ///< the home, which is told of the failure
  abandoned,   ///< the executor, whose result is not wanted any more
};

/// What is kept in the home link's wr_id: what it is about, and whose.
enum class WrKind : std::uint8_t { slot = 1, board, pool, completed };
[[nodiscard]] constexpr std::uint64_t wr_id_of(WrKind kind, std::uint64_t which) {
  return static_cast<std::uint64_t>(kind) << 56 | which;
}

/// The same in the context of a client's operation, below Worker::kContext; and whose it is: what
/// an earlier worker of the same client has begun may end later.
enum class AskKind : std::uint8_t { input = 1, output, arena, failure, join, leave };
struct AskContext {
  std::uint32_t worker = 0;  ///< its number; the lower 8 bits matter
  AskKind kind{};
  std::uint32_t which = 0;   ///< slot, of the window or the board; 24 bits
  std::uint32_t number = 0;  ///< input, or server; 24 bits
  [[nodiscard]] constexpr std::uint64_t bits() const {
    return Worker::kContext | static_cast<std::uint64_t>(kind) << 56 |
           std::uint64_t{worker & 0xff} << 48 | std::uint64_t{number & 0xffffff} << 24 |
           (which & 0xffffff);
  }
  [[nodiscard]] static constexpr AskContext from(std::uint64_t bits) {
    return {.worker = static_cast<std::uint32_t>(bits >> 48 & 0xff),
            .kind = static_cast<AskKind>(bits >> 56 & 0x7f),
            .which = static_cast<std::uint32_t>(bits & 0xffffff),
            .number = static_cast<std::uint32_t>(bits >> 24 & 0xffffff)};
  }
};

/// A node that this worker has in hand.
struct Worker::Slot {
  Slot(roce::Engine& engine, roce::ProtectionDomain pd)
      : record(engine, pd), words(engine, pd), other(engine, pd) {}

  std::uint32_t index = 0;
  std::uint32_t generation = 0;  ///< of its tickets
  Stage stage = Stage::free;
  bool queued = false;   ///< in retry_
  bool counted = false;  ///< in active_
  bool ahead = false;    ///< in ahead_
  bool decided = false;  ///< it is known which worker has the node
  bool job = false;      ///< the executor has it
  bool stolen = false;

  // Which node.
  DequeEntry entry;
  unsigned priority = 0;
  std::uint64_t run = 0;  ///< id
  std::uint32_t attempt = 0;
  unsigned tries = 0;  ///< of claiming
  int theft = -1;      ///< the attempt to steal that it came of
  unsigned number = 0;
  NodeView view;              ///< views of `record`
  std::string_view run_name;  ///< likewise
  std::string_view key;       ///< likewise; without the run's name

  // At the transport.
  std::size_t posted = 0;       ///< of the things that the stage posts
  std::size_t outstanding = 0;  ///< signaled requests, and operations of the client
  LocalMemory record;
  LocalMemory words;  ///< what CAS and FETCH_ADD find; words that are READ
  LocalMemory other;  ///< another node's record

  // Inputs.
  std::vector<std::uint32_t> sources;  ///< of view.predecessors, those with data
  std::vector<std::vector<std::byte>> inputs;
  std::vector<bool> has_input;
  std::vector<TaskInput> task_inputs;
  Status input_status = Status::ok;

  // Output.
  std::vector<std::byte> output;
  std::string failure;  ///< why there is none
  bool committed = false;
  std::uint64_t claimed_ns = 0;
  std::uint64_t finished_ns = 0;  ///< by the worker's own clock
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  OutputPlace place;
  std::uint64_t arena_request = 0;  ///< that it waits for

  // Successors.
  std::vector<std::uint32_t> due;       ///< of view.successors: to be told now
  std::vector<std::uint32_t> later;     ///< when their time has come, the last one first
  std::vector<std::uint32_t> directed;  ///< ready, and to be looked at
  std::size_t batch = 0;                ///< of `due`, under way
  NodePhase returned = NodePhase::pending;

  [[nodiscard]] std::uint64_t ticket() const { return std::uint64_t{generation} << 32 | index; }
  [[nodiscard]] std::uint64_t word_address(unsigned word) const {
    return dag::word_address(entry.address, word);
  }
};

/// Memory for outputs of a run at one server.
struct Worker::Arena {
  Pointer pointer;
  std::uint64_t used = 0;
  std::uint64_t requests = 0;  ///< so far
  std::uint64_t failed = 0;    ///< the last one that did
  Status why = Status::ok;
  bool asking = false;
};

/// A run as this worker takes part in it.
struct Worker::Run {
  std::uint64_t id = 0;
  RunPhase phase = RunPhase::none;
  unsigned priority = 0;
  std::uint32_t nodes = 0;
  std::uint64_t first_incarnation = 0;
  std::uint64_t records_address = 0;
  std::uint64_t records_bytes = 0;
  std::string name;
  std::vector<Arena> arenas;  ///< by server
  std::uint64_t to_add = 0;   ///< nodes released, of which `completed` does not know
  bool adding = false;
};

/// What has been claimed of a victim's entries.
struct Worker::Theft {
  std::uint64_t gone = 0;  ///< a bit for each
  std::size_t entries = 0;
  std::size_t open = 0;  ///< claims under way
  bool told = false;
  bool successful = false;
};

struct Worker::Ready {
  unsigned priority = 0;
  DequeEntry entry;
};

/// When a slot's next edge may be told.
struct Worker::Delayed {
  std::uint64_t due_ns = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  [[nodiscard]] friend bool operator<(const Delayed& a, const Delayed& b) {
    return a.due_ns > b.due_ns;
  }
};

/// A node that the executor may have: the most urgent class first, in it the longest way to the end
/// (DG-41).
struct Worker::Prepared {
  unsigned priority = 0;  ///< class
  std::uint64_t urgency = 0;
  std::uint32_t slot = 0;
  [[nodiscard]] friend bool operator<(const Prepared& a, const Prepared& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.urgency < b.urgency;
  }
};

/// FETCH_ADDs of a slot under way.
inline constexpr std::size_t kBatch = 64;
/// Room of the home link that new work leaves free, for the requests that slots have still to post.
inline constexpr std::size_t kLinkReserve = 16;

}  // namespace rockhopper::dag
