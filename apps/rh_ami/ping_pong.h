// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include "apps/rh_ami/node.h"
#include "apps/rh_ami/run.h"
#include "stack/random.h"

namespace rockhopper::apps::messages {

/// Active messages one at a time; the peer's handler answers each with one.
class PingPong final : public Run {
 public:
  /// References must outlive it.
  PingPong(Node& node, const Options& options, const RunSpec& spec);
  bool turn() override;
  void on_pong(const ami::Message& message) override;

 private:
  static void on_end(void* self, std::uint64_t number, ami::Status status) {
    static_cast<PingPong*>(self)->ledger_.call(number, status);
  }
  [[nodiscard]] bool is_over(std::uint64_t now_ns) const;
  [[nodiscard]] bool ping();

  Node& node_;
  const Options& options_;
  const RunSpec spec_;
  stack::Random random_;
  std::unique_ptr<LatencyHistogram> histogram_;
  bool waits_ = false;  ///< for the answer to the last ping
  std::uint64_t answered_ = 0;
  std::uint64_t start_ns_ = 0;  ///< of the measured part
  std::uint64_t sent_ns_ = 0;
  std::uint64_t callbacks_before_ = 0;
};

}  // namespace rockhopper::apps::messages
