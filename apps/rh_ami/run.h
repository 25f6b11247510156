// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/common/latency_histogram.h"
#include "apps/rh_ami/application.h"
#include "apps/rh_ami/ledger.h"
#include "apps/services/ami/context.h"

namespace rockhopper::apps::messages {

struct Measurement {
  std::uint64_t instructions = 0;
  std::uint64_t callbacks = 0;  ///< of these, those that had one
  std::uint64_t seen = 0;       ///< callbacks in which the data were looked for, and there
  double seconds = 0;
  std::optional<LatencySummary> latency{};  ///< half a round trip
};

/// One measurement, on the application's thread.
class Run : public Work {
 public:
  explicit Run(std::uint32_t window) : ledger_(window) {}

  // Any thread.
  /// Nothing more is injected, and every callback has been called.
  [[nodiscard]] bool finished() const { return finished_.load(std::memory_order_acquire); }
  /// Rises as long as something completes.
  [[nodiscard]] std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  /// Has nothing more injected.
  void stop() { stop_.store(true, std::memory_order_relaxed); }

  // With the application's thread elsewhere.
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }
  [[nodiscard]] const Measurement& measurement() const { return measurement_; }
  /// Instructions that have been injected, those before the measurement too.
  [[nodiscard]] std::uint64_t injected() const { return next_; }
  /// What was not as it should be; empty: nothing.
  [[nodiscard]] const std::string& fault() const { return fault_; }

  /// The peer's answer has come.
  virtual void on_pong(const ami::Message&) {}

 protected:
  /// Whether it goes on; else finishes it when no callback is outstanding.
  [[nodiscard]] bool goes_on() {
    if (!stop_.load(std::memory_order_relaxed) && ledger_.failed() == 0 && fault_.empty()) {
      return true;
    }
    if (ledger_.outstanding() == 0) finish();
    return false;
  }
  void finish() { finished_.store(true, std::memory_order_release); }
  void tell_progress(std::uint64_t progress) {
    progress_.store(progress, std::memory_order_relaxed);
  }
  void set_fault(std::string text) {
    if (fault_.empty()) fault_ = std::move(text);
  }

  Ledger ledger_;
  Measurement measurement_;
  std::uint64_t next_ = 0;  ///< the number of the next instruction

 private:
  std::string fault_;
  std::atomic<bool> finished_{false};
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> progress_{0};
};

}  // namespace rockhopper::apps::messages
