// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/schedule/board_writer.h"
#include "apps/services/dag/schedule/home_counters.h"
#include "apps/services/dag/schedule/home_request.h"
#include "apps/services/dag/schedule/node_state.h"
#include "apps/services/dag/schedule/run_records.h"
#include "apps/services/dag/schedule/run_recovery.h"
#include "apps/services/dag/schedule/worker_table.h"
#include "apps/services/dag/store.h"

namespace rockhopper::dag {

/// One run at its home: makes the records of its nodes, has ready nodes for the pool, puts right
/// what lost workers have left, finds out when all is done, and cleans up. Shows itself in its slot
/// on the board. Whatever looks at all nodes does so in slices, one a turn.
class Run {
 public:
  /// What all runs of a home share. All must outlive them.
  struct Site {
    Store& store;
    BoardWriter& board;
    const WorkerTable& workers;
    HomeCounters& counters;
    std::uint32_t slice = 0;  ///< nodes
  };
  struct Init {
    RunId id{};
    std::uint32_t slot = 0;
    std::string_view name;       ///< good (is_run_name)
    std::uint32_t priority = 0;  ///< class
    RunAttempts attempts;
  };
  /// Waits for decide(). It is on the board when the constructor returns.
  Run(const Site& site, const Init& init);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() = default;

  [[nodiscard]] RunId id() const { return init_.id; }
  [[nodiscard]] std::uint32_t slot() const { return init_.slot; }
  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] std::uint32_t priority() const { return init_.priority; }
  [[nodiscard]] std::uint32_t nodes() const { return nodes_; }
  [[nodiscard]] std::uint64_t completed() const;
  [[nodiscard]] std::string_view text() const { return text_; }
  /// As the board shows it.
  [[nodiscard]] RunPhase phase() const;
  [[nodiscard]] bool is_dropped() const { return dropped_; }
  /// None of its records are in the store any more.
  [[nodiscard]] bool is_erased() const { return stage_ == Stage::resting; }
  /// It is going to make its records, for which no other run's with its name must be there.
  [[nodiscard]] bool needs_name() const { return stage_ == Stage::building && !records_->memory(); }
  /// Returns true if nothing of it is left anywhere: its slot may be another run's.
  [[nodiscard]] bool is_gone() const;

  /// Its graph, or why it is refused. Without effect unless it waits for that.
  void decide(Expected<Graph> graph);
  /// Harmless if it has ended.
  void cancel();
  /// Forgets it. False: it has not ended.
  [[nodiscard]] bool drop(std::uint64_t now_ns);
  /// A worker could not run the node. Invalid: that worker does not run this attempt of it.
  [[nodiscard]] Status on_node_failed(std::uint32_t worker, NodeIndex node, std::uint32_t attempt,
                                      std::string_view text);
  /// A worker is gone. `lost`: its number, if it did not leave by itself: what it was running may
  /// be why, so a node that is lost too often ends the run.
  void on_worker_gone(std::optional<std::uint32_t> lost);

  /// The most urgent node for the pool. It stays the first one until pop_ready().
  [[nodiscard]] std::optional<DequeEntry> first_ready();
  void pop_ready();

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  [[nodiscard]] std::uint64_t next_deadline_ns(std::uint64_t now_ns) const;

 private:
  enum class Stage : std::uint8_t {
    deciding,  ///< waits for its graph
    building,  ///< its records are made
    running,
    ending,   ///< no node is begun any more; workers still have some
    undoing,  ///< its records are deleted, as it is refused or was canceled meanwhile
    ended,    ///< as `outcome_` says
    erasing,  ///< it was dropped; its records are deleted
    resting,  ///< all its memory rests
  };

  void show();
  void enter(Stage stage);
  [[nodiscard]] bool has_memory() const { return records_ != nullptr && records_->memory(); }
  // Its records.
  [[nodiscard]] Expected<void> build();
  void refuse(std::string_view text);
  void give_up_building();
  void erase(std::uint64_t now_ns);
  // While it runs, and how it ends.
  bool look(std::uint64_t now_ns);
  [[nodiscard]] bool is_plausible(NodeIndex node, const NodeState& state) const;
  void begin_scan(std::optional<std::uint32_t> lost);
  [[nodiscard]] bool has_failed(const std::vector<NodeIndex>& lost);
  void end_with(RunPhase outcome, std::string_view text);
  bool settle();
  [[nodiscard]] bool settle(NodeIndex node);
  void finish(RunPhase outcome);
  void correct_count();
  [[nodiscard]] std::uint32_t label_of(NodeIndex node) const;
  void add_ready(NodeIndex node);

  Site site_;
  Init init_;
  std::string name_;
  std::string text_;
  Stage stage_ = Stage::deciding;
  RunPhase outcome_ = RunPhase::none;
  bool dropped_ = false;
  std::uint32_t nodes_ = 0;
  std::uint32_t edges_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t retried_ = 0;

  std::unique_ptr<RunRecords> records_;  ///< from decide() on, until they are erased
  std::optional<RunRecovery> recovery_;  ///< refers to records_
  NodeIndex swept_ = 0;   ///< of an ending run: nodes of which none is pending any more
  NodeIndex passed_ = 0;  ///< nodes that are at their end, from the first one on
  std::map<NodeIndex, std::uint32_t> failures_;
  std::map<NodeIndex, std::uint32_t> losses_;
  /// What the quarantine has to have released before all memory has rested.
  std::uint64_t rested_at_ = 0;

  /// Ready nodes that are not in the pool yet, with their priority: the most urgent one first.
  using Urgency = std::pair<std::uint64_t, NodeIndex>;
  std::priority_queue<Urgency> ready_;
};

}  // namespace rockhopper::dag
