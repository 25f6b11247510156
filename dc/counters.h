// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>

#include "dc/message.h"
#include "stack/counter.h"

namespace rockhopper::dc {

/// Counters of an endpoint (DC-37). What is dropped counts at the engine, with its reason.
#define ROCKHOPPER_DC_COUNTERS(X)                                                         \
  X(tx_connect, "connects sent, repetitions included")                                    \
  X(tx_connect_data, "of these, connects with the first request in the same packet")      \
  X(rx_connect, "connects received that carry the target's access key")                   \
  X(rx_connect_data, "of these, connects with a request for their session")               \
  X(tx_accept, "connects accepted, repetitions included")                                 \
  X(rx_accept, "accepts received that opened a connection")                               \
  X(tx_disconnect, "disconnects sent")                                                    \
  X(rx_disconnect, "disconnects received that closed a session")                          \
  X(tx_keepalive, "keep-alives sent")                                                     \
  X(rx_keepalive, "keep-alives received for an open session")                             \
  X(sessions_opened, "sessions opened as target")                                         \
  X(sessions_closed, "sessions closed as target, for whatever reason")                    \
  X(sessions_evicted, "idle sessions closed to make room for others")                     \
  X(sessions_expired, "sessions closed as their lease had run out")                       \
  X(sessions_superseded, "sessions closed as their initiator connects anew")              \
  X(access_key_violations, "connects without the target's access key")                    \
  X(ghost_connects, "connects of a connection that is over")                              \
  X(stale_requests, "requests of a session that is not open")                             \
  X(ghost_responses, "responses of a session that is not the initiator's")                \
  X(restarts, "connections that had to be opened again for the same request")             \
  X(lost_sessions, "open sessions that the target had closed, with requests outstanding") \
  X(cnaks_suppressed, "CNAKs not sent: too many to one source, or at a time")             \
  X(tx_cnak_no_context, "CNAKs sent: no context free")                                    \
  X(tx_cnak_no_such_dct, "CNAKs sent: no such target")                                    \
  X(tx_cnak_draining, "CNAKs sent: the target takes no new connections")                  \
  X(tx_cnak_stale_session, "CNAKs sent: the session is not open")                         \
  X(tx_cnak_incompatible, "CNAKs sent: the target cannot do what is asked for")           \
  X(tx_cnak_quota, "CNAKs sent: the host has as many sessions as it may")                 \
  X(rx_cnak_no_context, "CNAKs received: no context free")                                \
  X(rx_cnak_no_such_dct, "CNAKs received: no such target")                                \
  X(rx_cnak_draining, "CNAKs received: the target takes no new connections")              \
  X(rx_cnak_stale_session, "CNAKs received: the session is not open")                     \
  X(rx_cnak_incompatible, "CNAKs received: the target cannot do what is asked for")       \
  X(rx_cnak_quota, "CNAKs received: this host has as many sessions as it may")

struct Counters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_DC_COUNTERS)

  [[nodiscard]] stack::Counter& tx_cnak(CnakReason reason) {
    return (&tx_cnak_no_context)[at(reason)];
  }
  [[nodiscard]] stack::Counter& rx_cnak(CnakReason reason) {
    return (&rx_cnak_no_context)[at(reason)];
  }

 private:
  [[nodiscard]] static std::size_t at(CnakReason reason) {
    return static_cast<std::size_t>(reason) - 1;
  }
};

}  // namespace rockhopper::dc
