// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/services/dag/client.h"
#include "apps/services/dag/schedule/board.h"
#include "apps/services/dag/schedule/worker_counters.h"

namespace rockhopper::dag {

/// Memory for the outputs of one run at one server: an arena, of which records take one piece after
/// the other, and the requests for the next one, of which one is under way at a time.
class OutputArena {
 public:
  /// The number of a request; 0: none.
  using Request = std::uint64_t;

  /// A request is under way.
  [[nodiscard]] bool is_asking() const { return asking_; }
  /// Returns the last request.
  [[nodiscard]] Request last_request() const { return requests_; }
  /// Returns why that request has brought no memory; nothing if it is not the last one that failed.
  [[nodiscard]] std::optional<Status> failure_of(Request request) const;
  [[nodiscard]] bool has_room(std::uint64_t bytes) const;
  /// Returns where the next record goes. Requires has_room() for it.
  [[nodiscard]] Client::ArenaPlace next() const;

  /// The next record has taken so many bytes, a multiple of kRecordAlignment.
  void take(std::uint64_t bytes);
  /// Another arena is asked for. Requires that none is being asked for.
  Request ask();
  /// The request under way has brought `pointer`, or if `status` is not ok, nothing.
  void on_answer(Status status, const Pointer& pointer);
  /// What it has is lost.
  void forget() { arena_ = {}; }

 private:
  Pointer arena_;
  std::uint64_t used_ = 0;  ///< bytes, at most the arena's
  Request requests_ = 0;
  Request failed_ = 0;  ///< the last one that did, at most requests_
  Status why_ = Status::ok;
  bool asking_ = false;
};

/// The arenas of a worker, by run and server. They belong to their runs, and outlive the worker.
class Arenas {
 public:
  struct Key {
    std::uint8_t slot = 0;  ///< of the run, on the board
    RunId run{};
    std::uint16_t server = 0;
  };

  /// `bytes` are asked for at a time, or more where more is needed. All must outlive it.
  Arenas(Client& client, std::uint64_t bytes, WorkerCounters& counters)
      : client_(client), bytes_(bytes), counters_(counters) {}

  [[nodiscard]] OutputArena& at(const Key& key) { return slots_[key.slot].servers[key.server]; }
  /// Nothing is being asked for.
  [[nodiscard]] bool quiet() const { return asking_ == 0; }

  /// The slot has another run, whose outputs go to so many servers.
  void on_another_run(std::uint8_t slot, RunId run, std::uint16_t servers);
  void on_server_lost(std::uint16_t server);
  /// Asks for an arena of at least `bytes` for that run, whose name is `run_name`. Returns which
  /// request it is, perhaps one that has failed already; 0 if the client has no room for it now.
  /// `context` is that of the client's operation.
  [[nodiscard]] OutputArena::Request ask(const Key& key, std::string_view run_name,
                                         std::uint64_t bytes, std::uint64_t context);
  /// Such an operation has ended. Returns false if nobody waits for it: the slot has another run.
  [[nodiscard]] bool on_result(std::uint32_t slot, std::uint32_t number, const Result& result);
  /// Returns what the result of a request is known by, besides the slot; 24 bits.
  [[nodiscard]] static std::uint32_t number_of(const Key& key);

 private:
  struct Slot {
    RunId run{};
    std::vector<OutputArena> servers;
  };

  Client& client_;
  std::uint64_t bytes_;
  WorkerCounters& counters_;
  std::vector<Slot> slots_;  ///< those that had a run
  std::size_t asking_ = 0;
};

}  // namespace rockhopper::dag
