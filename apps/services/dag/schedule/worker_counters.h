// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/counter.h"

/// Counters of a worker: X(name, meaning).
#define ROCKHOPPER_DAG_WORKER_COUNTERS(X)                                         \
  X(nodes, "nodes that were run and whose output counts")                         \
  X(nodes_stolen, "of these, nodes that were stolen from another worker")         \
  X(claims, "claims posted: CAS of a node's state")                               \
  X(claims_won, "claims that found the node ready")                               \
  X(claims_gone, "claims that found another one had been faster")                 \
  X(claims_repeated, "claims made again, as the node had been begun before")      \
  X(claims_early, "nodes given back, as predecessors had not been released")      \
  X(claims_stale, "claims of what was no such node, or none of a run")            \
  X(looked_at, "nodes with an affinity that were looked at")                      \
  X(unfit, "of these, nodes that another worker has to run")                      \
  X(given_back, "nodes given back, as the executor was busy for long")            \
  X(given_up, "nodes given up, as their run had ended")                           \
  X(failed, "nodes that could not be run")                                        \
  X(pushed, "nodes that became ready here")                                       \
  X(popped, "entries taken from the own deques")                                  \
  X(overflowed, "ready nodes for which the deques had no room for a while")       \
  X(entries_dropped, "entries of runs that have ended, or of no run")             \
  X(pool_looks, "looks at the pool")                                              \
  X(pool_takes, "times that something was taken from the pool")                   \
  X(pool_entries, "entries taken from the pool")                                  \
  X(pool_lost, "times that another worker was faster at the pool")                \
  X(steals, "attempts to steal")                                                  \
  X(steals_empty, "attempts that found nothing to take")                          \
  X(steals_successful, "attempts that brought a node")                            \
  X(transferred, "nodes that were stolen for the own deques")                     \
  X(steals_overtaken, "times that another thief, or the victim, had been faster") \
  X(steals_failed, "attempts whose victim could not be reached")                  \
  X(inputs_cached, "inputs that this worker had made itself, and had still")      \
  X(inputs_read, "inputs that were READ")                                         \
  X(outputs_home, "outputs written at the home")                                  \
  X(outputs_elsewhere, "outputs written at other servers")                        \
  X(output_bytes, "bytes of these outputs")                                       \
  X(arenas, "arenas asked for outputs")                                           \
  X(chains, "commits posted: output place, state, successors")                    \
  X(successors, "FETCH_ADDs of successors' dependencies")                         \
  X(board_reads, "READs of the whole board, as it had changed")                   \
  X(board_bad, "boards or slots that contradict themselves")                      \
  X(unexpected, "results that nobody waits for")

namespace rockhopper::dag {

struct WorkerCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_DAG_WORKER_COUNTERS)
};

}  // namespace rockhopper::dag
