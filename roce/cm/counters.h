// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/counter.h"

namespace rockhopper::roce::cm {

#define ROCKHOPPER_CM_COUNTERS(X)                                                       \
  X(sent_messages, "connection manager messages sent, repetitions included")            \
  X(repeated_messages, "of these, sent again for want of an answer")                    \
  X(rcvd_messages, "connection manager messages received")                              \
  X(unsupported_mads, "dropped: not the connection manager's class, version or method") \
  X(unsupported_messages, "dropped: a message that is not served (LAP, APR)")           \
  X(bad_address_messages, "dropped: addresses are not those that the message names")    \
  X(unknown_connection, "messages about a connection that there is not")                \
  X(unexpected_messages, "dropped: do not fit the connection's state")                  \
  X(duplicate_messages, "received before; answered again where an answer is due")       \
  X(rcvd_rejects, "REJ received")                                                       \
  X(sent_rejects, "REJ sent")                                                           \
  X(stale_connections, "ended: its peer's queue pair asks to be connected anew")        \
  X(refused_backlog, "requests refused: too many wait for the application")             \
  X(refused_limit, "requests refused: too many connections")                            \
  X(timeouts, "given up: no answer after all retries")                                  \
  X(established, "connections established")                                             \
  X(disconnected, "connections ended that had been established")                        \
  X(answered_lookups, "SIDR requests answered, refusals included")

struct Counters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_CM_COUNTERS)
};

}  // namespace rockhopper::roce::cm
