// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "roce/types.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"

namespace rockhopper::roce {

class QueuePair;

/// What any thread may ask of a queue pair while it exists.
struct QpSummary {
  wire::Qpn number;
  QpType type = QpType::rc;
  QpState state = QpState::reset;
  /// RC: the oldest PSN that is not acknowledged. UC and UD: the next to send.
  wire::Psn sent;
  /// The PSN of the next request to execute; 0 for UD.
  wire::Psn received;
};

/// Learns which queue pairs an engine has, those of extensions excepted. Calls come from the
/// engine's thread, and not from the path of packets.
class QpObserver {
 public:
  QpObserver() = default;
  QpObserver(const QpObserver&) = delete;
  QpObserver& operator=(const QpObserver&) = delete;
  virtual ~QpObserver() = default;

  virtual void on_created(const QueuePair& qp) = 0;
  /// The queue pair is about to go: when this has returned, nobody may read it.
  virtual void on_destroyed(const QueuePair& qp) = 0;
};

}  // namespace rockhopper::roce
