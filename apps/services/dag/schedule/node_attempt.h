// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/services/dag/schedule/local_memory.h"
#include "apps/services/dag/schedule/node_copy.h"
#include "apps/services/dag/schedule/node_inputs.h"
#include "apps/services/dag/schedule/node_state.h"
#include "apps/services/dag/schedule/successor_releases.h"
#include "apps/services/dag/schedule/workplace.h"

namespace rockhopper::dag {

class NodeAttempt;

/// The owner of attempts is told through this what they wait for besides the transport.
class AttemptKeeper {
 public:
  AttemptKeeper() = default;
  AttemptKeeper(const AttemptKeeper&) = delete;
  AttemptKeeper& operator=(const AttemptKeeper&) = delete;
  virtual ~AttemptKeeper() = default;
  /// It has something to post for which there is no room: NodeAttempt::retry() in the next turn.
  virtual void on_blocked(NodeAttempt& attempt) = 0;
  /// NodeAttempt::wake() when it is time.
  virtual void on_waiting(NodeAttempt& attempt, std::uint64_t due_ns) = 0;
  /// It is over; another node may begin.
  virtual void on_free(NodeAttempt& attempt) = 0;
};

/// A node that a worker has in hand, from the entry that led to it to its release, or until it is
/// given back or turns out to be another worker's. One after the other use the same object and its
/// memory.
///
/// It is in one stage at a time, and posts what the stage has to post, as far as there is room;
/// when that is complete, it goes on. Each stretch of the way has a class of its own: Claiming,
/// Reading, Storing, Committing. All come back here: when the node is begun, put aside, given back
/// or failed.
class NodeAttempt {
 public:
  /// What it waits for, in the order of the way.
  enum class Stage : std::uint8_t {
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
  /// Which node it is, and how the worker has come to it.
  struct Origin {
    DequeEntry entry;
    unsigned priority = 0;          ///< class
    std::uint64_t run = 0;          ///< id
    std::optional<unsigned> theft;  ///< the attempt to steal (Thief) that found it
    unsigned number = 0;            ///< of the entry in what that attempt has found
  };

  /// `index` is what its requests are known by. All must outlive it.
  NodeAttempt(Workplace& at, AttemptKeeper& keeper, std::uint32_t index);
  /// Memory that every node needs; before all else.
  [[nodiscard]] Expected<void> set_up();

  [[nodiscard]] std::uint32_t index() const { return index_; }
  /// For the executor; another one with each node.
  [[nodiscard]] std::uint64_t ticket() const { return std::uint64_t{generation_} << 32 | index_; }
  [[nodiscard]] Stage stage() const { return stage_; }
  /// The executor has it.
  [[nodiscard]] bool has_job() const { return has_job_; }
  /// Something is under way at the transport.
  [[nodiscard]] bool is_under_way() const { return outstanding_ > 0; }
  /// Its run is going on. Requires that a node has begun.
  [[nodiscard]] bool is_wanted() const;

  /// Begins with a node of a run that is going on.
  void begin(const Origin& origin, Window::Place place);
  /// One of its signaled requests on the home link is complete.
  void on_completion();
  /// One of its operations on the record store has ended. Returns false if it has none.
  [[nodiscard]] bool on_result(AskKind kind, std::uint32_t number, const Result& result);
  /// Posts what there was no room for. Returns false if nothing came of it.
  bool retry();
  /// Has the executor start it. Requires that it is prepared.
  void start();
  /// The executor's job is over.
  void complete(Expected<std::span<const std::byte>> output, std::uint64_t start_ns,
                std::uint64_t end_ns);
  /// Whether its run goes on may have changed.
  void on_runs_changed();
  /// Leaves it to anybody: its state becomes pending again, and its entry goes to the ready nodes
  /// if it is ready still. Whoever makes it ready after that finds it pending.
  void give_back();
  /// The time has come that it waits for.
  void wake();
  /// Nobody wants what the executor makes of it. Requires that it has a job.
  void abandon() { at_.init.executor.abandon(ticket()); }

 private:
  class Claiming;
  class Reading;
  class Storing;
  class Committing;

  /// The claim, and what was found out before.
  struct Claim {
    std::uint32_t attempt = 0;  ///< how often the node was begun in vain
    unsigned tries = 0;         ///< of claiming
    bool is_decided = false;    ///< who has the node
    std::uint64_t began_ns = 0;
    std::vector<std::uint32_t> traced;  ///< of the predecessors, those whose workers matter
  };
  /// What has come of the node's tasks.
  struct Outcome {
    std::vector<std::byte> output;
    std::string failure;  ///< why there is none
    OutputArena::Request arena_request = 0;
    OutputPlace place;
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;       ///< 0: it was not run
    std::uint64_t finished_ns = 0;  ///< by the worker's own clock; 0: not known
    bool is_committed = false;
  };

  // The way from stage to stage.
  void enter(Stage stage);
  void step();
  [[nodiscard]] bool post();
  void done();

  // What the stretches of the way have in common.
  [[nodiscard]] std::uint64_t wr_id() const { return wr_id_of(WrKind::attempt, index_); }
  [[nodiscard]] std::uint64_t address_of(unsigned word) const {
    return word_address(origin_.entry.address, word);
  }
  [[nodiscard]] std::uint64_t state_bits(NodePhase phase) const {
    return NodeState{.phase = phase, .attempt = claim_.attempt, .owner = at_.me()}.bits();
  }
  void read(std::uint64_t address, const LocalMemory& to, std::size_t offset, std::uint32_t length);
  void write_words(unsigned first, std::span<const std::uint64_t> words, bool signaled);
  [[nodiscard]] std::span<const std::uint64_t> found() const {
    return {reinterpret_cast<const std::uint64_t*>(words_.data()),
            words_.size() / sizeof(std::uint64_t)};
  }

  // How it ends.
  void decide(Fate fate);
  void leave_way();
  void free();
  void put_aside(Fate fate);
  void give_up();
  void return_as(NodePhase phase);
  [[nodiscard]] bool post_return();
  void on_returned();
  void fail(std::string text);
  [[nodiscard]] bool post_failure();
  void report(bool committed);

  Workplace& at_;
  AttemptKeeper& keeper_;
  const std::uint32_t index_;
  std::uint32_t generation_ = 0;  ///< one more with each node
  Stage stage_ = Stage::free;
  Window::Place place_ = Window::Place::none;  ///< none if and only if the stage is free
  bool has_job_ = false;                       ///< only if running, returning or abandoned
  std::size_t posted_ = 0;                     ///< of the things that the stage posts
  std::size_t outstanding_ = 0;  ///< signaled requests, and operations on the record store
  Origin origin_;
  LocalMemory record_;
  LocalMemory words_;  ///< what CAS and FETCH_ADD find; words that are READ
  LocalMemory other_;  ///< another node's record
  NodeCopy copy_;      ///< refers to record_
  Claim claim_;
  NodeInputs inputs_;
  Outcome outcome_;
  SuccessorReleases releases_;
  NodePhase returned_ = NodePhase::pending;
};

}  // namespace rockhopper::dag
