// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/counter.h"

/// Counters of a home: X(name, meaning).
#define ROCKHOPPER_DAG_HOME_COUNTERS(X)                                                          \
  X(runs_submitted, "runs submitted")                                                            \
  X(runs_refused, "runs refused after their graph had been looked at")                           \
  X(runs_started, "runs whose records were made")                                                \
  X(runs_complete, "runs of which each node was released")                                       \
  X(runs_failed, "runs that failed, as a node had failed too often")                             \
  X(runs_canceled, "runs canceled")                                                              \
  X(runs_dropped, "runs forgotten with their records")                                           \
  X(joins, "workers that have joined")                                                           \
  X(leaves, "workers that have gone by themselves")                                              \
  X(workers_lost, "workers that were lost")                                                      \
  X(scans, "looks at all nodes of a run, as a worker had gone")                                  \
  X(nodes_put_back, "nodes whose worker had gone, and that are pending again")                   \
  X(nodes_released, "nodes that a worker had done, and the home has released")                   \
  X(dependencies_reckoned, "nodes whose dependencies were reckoned anew")                        \
  X(reckonings_delayed, "times that it had to wait for a living worker or a time to pass")       \
  X(nodes_retried, "nodes put back as a task had failed")                                        \
  X(nodes_canceled, "nodes of runs that have ended that nobody will run")                        \
  X(pool_entries, "ready nodes put into the pool")                                               \
  X(pool_full, "turns in which the pool had no room for a ready node")                           \
  X(bad_states, "nodes whose state nobody may have written, and that were put back")             \
  X(bad_dependencies, "nodes that were run and have dependencies; they were reckoned")           \
  X(refused_code, "requests that are not known")                                                 \
  X(refused_data, "requests whose data are no request's of that kind")                           \
  X(refused_name, "runs refused for their name")                                                 \
  X(refused_exists, "runs refused, as there is one with that name")                              \
  X(refused_runs, "runs refused, as there are as many as there may be")                          \
  X(refused_image, "runs refused, as their image is not in an arena of the client, or too long") \
  X(refused_workers, "workers refused, as there are as many as there may be")                    \
  X(refused_joined, "workers refused, as that client has joined before")                         \
  X(refused_not_joined, "workers that would go and have not joined")                             \
  X(refused_not_found, "requests about runs that there are not")                                 \
  X(refused_not_ended, "runs not forgotten, as they have not ended")                             \
  X(refused_failure, "failures told of nodes that the client does not run")

namespace rockhopper::dag {

struct HomeCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_DAG_HOME_COUNTERS)
};

}  // namespace rockhopper::dag
