// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/types.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"

namespace rockhopper::roce {

enum class TraceEvent : std::uint8_t {
  qp_state,        ///< a, b: old and new QpState
  request_posted,  ///< a: opcode (WrOpcode), b: bytes
  request_done,    ///< a: WcStatus, b: low bits of the wr_id
  nak_sent,        ///< a: AETH syndrome, b: PSN
  nak_received,    ///< a: AETH syndrome, b: PSN
  retransmit,      ///< a: PSN it goes back to, b: retries left
  ack_timeout,     ///< a: oldest unacknowledged PSN, b: retries left
  rnr_wait,        ///< a: timer code, b: retries left
  dropped,         ///< a: DropReason, b: PSN
};

/// The structured trace of state changes, for people who look at one connection: what happened,
/// not what crossed the wire. Called from the engine's thread; off costs one branch.
class EventTrace {
 public:
  EventTrace() = default;
  EventTrace(const EventTrace&) = delete;
  EventTrace& operator=(const EventTrace&) = delete;
  virtual ~EventTrace() = default;
  virtual void on_event(std::uint64_t now_ns, wire::Qpn qp, TraceEvent event, std::uint32_t a,
                        std::uint32_t b) = 0;
};

}  // namespace rockhopper::roce
