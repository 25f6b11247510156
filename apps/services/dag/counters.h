// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/counter.h"

/// Counters of a server: X(name, meaning).
#define ROCKHOPPER_DAG_SERVER_COUNTERS(X)                                                        \
  X(rx_requests, "requests received")                                                            \
  X(rx_malformed, "messages refused, as they are none of this kind or version")                  \
  X(rx_failed, "receives that failed: too long for a buffer, or flushed")                        \
  X(rx_repeated, "requests that had been answered already, and were answered again")             \
  X(rx_bad_word, "requests refused, as a later one has had their request word")                  \
  X(rx_canceled, "requests that their client had given up, and were not executed")               \
  X(rx_over_limit, "requests dropped, as the answers to earlier ones were not taken")            \
  X(tx_responses, "answers sent")                                                                \
  X(tx_failed, "answers that could not be sent")                                                 \
  X(tx_repeated, "answers sent again, as a connection was lost")                                 \
  X(creates, "records created")                                                                  \
  X(erases, "records deleted")                                                                   \
  X(lookups, "lookups answered with an entry")                                                   \
  X(resizes, "records that were given another capacity")                                         \
  X(arenas, "arenas given")                                                                      \
  X(adoptions, "records of arenas that were put into the map")                                   \
  X(refused_not_found, "requests for records that there are not")                                \
  X(refused_exists, "records not created, as there was one with that key")                       \
  X(refused_exhausted, "requests refused: no memory, or too many records")                       \
  X(refused_invalid, "requests refused: a value out of range")                                   \
  X(refused_damaged, "requests refused: the record contradicts itself")                          \
  X(group_arenas_released, "arenas released with their group")                                   \
  X(application_requests, "requests that the application has executed")                          \
  X(application_refused, "requests that the application has refused, or that there is none for") \
  X(grace_periods, "times that all clients have finished what they had begun")                   \
  X(fenced_lease, "clients fenced, as their lease ended")                                        \
  X(fenced_gone, "clients fenced, as they could not be reached")                                 \
  X(locks_released, "locks of fenced clients that were released")                                \
  X(leases_extended, "leases extended, as the server itself had stood still")

/// Counters of a client: X(name, meaning).
#define ROCKHOPPER_DAG_CLIENT_COUNTERS(X)                                        \
  X(operations, "operations begun")                                              \
  X(hits, "operations whose record its own map led to")                          \
  X(misses, "operations for which its own map had no entry")                     \
  X(stale, "entries whose record was not there any more")                        \
  X(false_candidates, "entries that led to a record with another key")           \
  X(torn, "READs that brought a record of no one version, and were repeated")    \
  X(reads, "READs posted")                                                       \
  X(writes, "WRITEs posted, of slots and records")                               \
  X(atomics, "CAS and FETCH_ADD posted")                                         \
  X(requests, "requests sent to servers")                                        \
  X(lookups, "of these, lookups after a miss or a stale entry")                  \
  X(requests_repeated, "requests sent again, as a connection was lost")          \
  X(timeouts, "requests given up")                                               \
  X(entries, "entries received")                                                 \
  X(evictions, "entries that made room for others")                              \
  X(updates, "updates that took effect")                                         \
  X(lock_conflicts, "updates that found the record locked, and tried again")     \
  X(overtaken, "updates that found the record dead when it was locked or swung") \
  X(outcomes_unknown, "atomics of which a lost connection took the answer")      \
  X(renewals, "leases renewed")                                                  \
  X(renewals_held_up, "renewals that waited for changes that had been begun")    \
  X(leases_ended, "leases given up, as no renewal was complete in time")         \
  X(rx_malformed, "messages refused, as they are none of this kind or version")  \
  X(rx_unexpected, "answers that nobody waits for")                              \
  X(rx_bad_entry, "answers with an entry beyond the server's memory")            \
  X(rx_failed, "receives that failed: too long for a buffer, or flushed")        \
  X(servers_lost, "servers that could not be reached any more, or have fenced us")

namespace rockhopper::dag {

struct ServerCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_DAG_SERVER_COUNTERS)
};
struct ClientCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_DAG_CLIENT_COUNTERS)
};

}  // namespace rockhopper::dag
