// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "roce/qp_observer.h"
#include "stack/error.h"

namespace rockhopper {

/// Tells DPDK telemetry of an engine's queue pairs, for as long as it lives:
///
///     /rockhopper/queue_pair_states,GROUP       how many there are of each type in each state
///     /rockhopper/queue_pairs,GROUP[,FIRST]     the queue pairs, from the FIRST place on
///
/// A queue pair is a line "number type state sent received", the last two being the PSNs of
/// roce::QpSummary. An answer that ends early has an entry "next", the FIRST to go on with.
///
/// Answers are made in a telemetry thread, of what queue pairs keep anyway. The engine's thread
/// waits for such an answer only when it makes or destroys a queue pair, and then for a few dozen
/// of them to be read.
class QpTelemetry final : public roce::QpObserver {
 public:
  QpTelemetry() = default;
  /// Telemetry forgets it.
  ~QpTelemetry() override;

  /// Names it to telemetry. Fails with `busy` if the name is taken. Once at most.
  [[nodiscard]] Expected<void> publish(std::string group);
  /// Telemetry forgets it: from the return on, nobody reads the queue pairs.
  void withdraw();

  void on_created(const roce::QueuePair& qp) override;
  void on_destroyed(const roce::QueuePair& qp) override;

  /// Appends the queue pairs from the place `first` on, of some places, and returns the place to go
  /// on with; 0: there are no more. Any thread.
  [[nodiscard]] std::size_t list(std::size_t first, std::vector<roce::QpSummary>& found) const;

 private:
  mutable std::mutex mutex_;
  /// By the low 16 bits of the number, which no two queue pairs of an engine share; null where
  /// there is none. A queue pair keeps its place, so that pages miss none.
  std::vector<const roce::QueuePair*> places_;
  std::string group_;  ///< empty: not published
};

}  // namespace rockhopper
