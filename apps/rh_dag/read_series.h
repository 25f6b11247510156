// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/latency_histogram.h"
#include "apps/services/dag/client.h"

namespace rockhopper::apps::dag_node {

/// Many reads by key, several at a time, and what they came to.
class ReadSeries {
 public:
  /// All must outlive start() and on_result().
  ReadSeries(dag::Client& client, std::span<const std::string> keys, std::uint64_t count,
             std::uint16_t window);

  /// Begins as many as there may be.
  void start();
  void on_result(const dag::Result& result);
  [[nodiscard]] bool done() const { return ended_ == count_; }
  /// The time is over.
  void stop();

  [[nodiscard]] std::uint64_t failed() const { return ended_ - by_status_[0]; }
  /// Reads that brought other data than one before of the same version.
  [[nodiscard]] std::uint64_t mixed() const { return mixed_; }
  [[nodiscard]] nlohmann::json to_json() const;
  /// For people.
  [[nodiscard]] std::string to_line() const;

 private:
  struct Slot {
    std::size_t key = 0;
    std::uint64_t start_ns = 0;
  };
  struct Seen {
    dag::RecordVersion version{};
    std::vector<std::byte> data{};
  };

  bool start(std::uint32_t slot);
  void end(dag::Status status);
  void compare(Seen& seen, const dag::Result& result);

  dag::Client* client_;
  std::span<const std::string> keys_;
  std::uint64_t count_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Seen> seen_;  ///< by key
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t mixed_ = 0;
  std::array<std::uint64_t, dag::kStatuses> by_status_{};
  std::uint64_t start_ns_;
  std::uint64_t passed_ns_ = 0;
  std::unique_ptr<LatencyHistogram> latency_ = std::make_unique<LatencyHistogram>();
};

}  // namespace rockhopper::apps::dag_node
