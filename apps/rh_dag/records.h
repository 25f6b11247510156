// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/rh_dag/connection.h"
#include "apps/rh_dag/read_series.h"
#include "apps/rh_dag/record_task.h"

namespace rockhopper::apps::dag_node {

/// A client that does one thing after another with records, and waits for each. A server that is
/// lost is connected to again before the next one.
class Records final : public dag::ClientListener {
 public:
  /// Connects. `options` must outlive it; `operations` is how many series have at a time.
  [[nodiscard]] static Expected<std::unique_ptr<Records>> open(const ConnectOptions& options,
                                                               const EndpointConfig& config,
                                                               const stack::Arguments& arguments,
                                                               dag::Placement placement,
                                                               std::uint16_t operations = 1);
  ~Records() override;

  /// An error is a signal's; what became of the record is in the result. `put` makes the record, or
  /// gives it the new data, and more room if it has to.
  [[nodiscard]] Expected<RecordResult> run(const RecordTask& task);
  /// Where a pointer leads.
  [[nodiscard]] Expected<RecordResult> read(const dag::Pointer& pointer);
  /// READs the keys in turn, `count` times altogether, as many at a time as there are operations.
  [[nodiscard]] Expected<ReadSeries> read_series(std::span<const std::string> keys,
                                                 std::uint64_t count);

  /// Whose the results of all other contexts are; empty: nobody's.
  void set_taker(std::function<void(const dag::Result&)> taker) { taker_ = std::move(taker); }

  /// To those that have fenced us, or have been started again, and to `server` in any case.
  [[nodiscard]] Expected<void> reconnect(std::optional<std::uint16_t> server = {});

  /// Lets the client finish what is still to be done behind results, as locks to be given back.
  void close();

  /// Waits for what has just been started. Any operation of the client, in the order of a caller.
  [[nodiscard]] Expected<dag::Result> wait(dag::Started started);
  /// The context of such an operation.
  static constexpr std::uint64_t kContext = std::uint64_t{1} << 32;

  [[nodiscard]] Connection& connection() { return *connection_; }
  [[nodiscard]] dag::Client& client() { return connection_->client(); }

  void on_result(const dag::Result& result) override;
  void on_server_lost(std::uint16_t server) override { lost_.push_back(server); }

 private:
  Records() = default;
  [[nodiscard]] Expected<RecordResult> result_of(dag::Started started);
  [[nodiscard]] Expected<RecordResult> put(const RecordTask& task);
  [[nodiscard]] Expected<RecordResult> create(const RecordTask& task);

  std::unique_ptr<Connection> connection_;
  std::uint16_t operations_ = 1;
  std::vector<std::uint16_t> lost_;  ///< servers
  std::optional<dag::Result> done_;  ///< of the one that is waited for; its data is data_
  std::vector<std::byte> data_;
  std::function<void(const dag::Result&)> taker_;
};

}  // namespace rockhopper::apps::dag_node
