// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/services/dag/graph/node_runner.h"
#include "apps/services/dag/schedule/worker.h"

namespace rockhopper::sim {

/// Runs nodes in virtual time: a job ends when its work has passed, with what its tasks come to.
class DigestExecutor final : public dag::NodeExecutor {
 public:
  /// `slots` jobs at a time; 0: each ends within start().
  DigestExecutor(const dag::FunctionRegistry& registry, unsigned slots)
      : runner_(registry), slots_(slots) {}

  [[nodiscard]] std::size_t room() const override;
  void start(const Job& job) override;
  void abandon(std::uint64_t ticket) override { abandoned.push_back(ticket); }

  /// Ends what is due. True if there was anything.
  bool progress(std::uint64_t now_ns);
  [[nodiscard]] std::uint64_t next_deadline_ns() const;
  [[nodiscard]] std::size_t running() const { return jobs_.size(); }

  dag::Worker* worker = nullptr;
  std::function<std::uint64_t(std::string_view key)> work_ns;  ///< of a node
  /// Why a node fails this time; empty: it does not.
  std::function<std::string(std::string_view key)> failure;
  std::uint64_t started = 0;
  std::uint64_t busy_ns = 0;
  std::vector<std::uint64_t> abandoned;

 private:
  struct Running {
    Job job;
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
  };
  void finish(const Running& running);

  dag::NodeRunner runner_;
  unsigned slots_;
  std::vector<Running> jobs_;
  std::vector<std::byte> output_;
  std::uint64_t now_ns_ = 0;
};

}  // namespace rockhopper::sim
