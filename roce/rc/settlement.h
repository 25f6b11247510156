// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "roce/rc/send_window.h"
#include "roce/wire/psn.h"
#include "roce/work_queue.h"

namespace rockhopper::roce::rc {

/// What becomes of the requests of a connection that is lost, before their queue begins anew with
/// another one. What must not be executed twice is settled: it completes in its turn, as executed
/// or with outcome_unknown (DC-27). The rest can be sent again.
class Settlement {
 public:
  /// `executed`: the peer that was has executed what has a PSN before it, and nothing else;
  /// nothing: it is not known. A place that nothing was sent to counts as not known.
  Settlement(SendQueue& queue, const SendWindow& window, std::optional<wire::Psn> executed);

  /// Settles what has to be, and takes the PSNs of all requests back.
  void settle();

 private:
  /// Something of `request` has been sent.
  [[nodiscard]] bool is_sent(const SendWqe& request) const;
  /// The peer may have executed all of `request`, or has, if it has told how far it came.
  [[nodiscard]] bool may_be_executed(const SendWqe& request) const;
  void settle_scopes();
  void settle_sent(SendWqe& request) const;

  SendQueue& queue_;
  const SendWindow& window_;
  std::optional<wire::Psn> executed_;
};

}  // namespace rockhopper::roce::rc
