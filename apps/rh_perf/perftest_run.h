// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_perf/layout.h"
#include "apps/rh_perf/options.h"
#include "apps/rh_perf/perftest_exchange.h"
#include "apps/rh_perf/perftest_rdma_cm.h"
#include "apps/rh_perf/pump.h"
#include "apps/rh_perf/report.h"
#include "apps/rh_perf/traffic.h"

namespace rockhopper::apps::perf {

/// One run against a program of perftest: ib_send_bw, ib_write_lat and so on, over one RC queue
/// pair. Both ends must be told the same operation, mode, size and iterations, as with two of them.
class PerftestRun {
 public:
  /// References must outlive it. `options` are those for this peer, checked. `rdma_cm`
  /// is that of the backend with -R, else null.
  PerftestRun(Backend& backend, const Options& options, PerftestRdmaCm* rdma_cm);

  [[nodiscard]] Expected<void> run();
  [[nodiscard]] nlohmann::json report() const;

 private:
  [[nodiscard]] Error cause_of(const Error& error);
  [[nodiscard]] Expected<void> meet();
  [[nodiscard]] Expected<TcpConnection> meet_over_tcp();
  [[nodiscard]] Expected<void> prepare();
  [[nodiscard]] Expected<void> connect();
  [[nodiscard]] Expected<void> start_traffic(const Side& remote);
  [[nodiscard]] Expected<void> shake_hands(unsigned times);
  [[nodiscard]] Expected<void> work();
  [[nodiscard]] Expected<void> measure();
  [[nodiscard]] Expected<void> answer();
  [[nodiscard]] Expected<void> end();
  void linger();
  void print() const;

  [[nodiscard]] bool is_client() const { return options_.role() == Role::client; }
  [[nodiscard]] bool is_latency() const { return spec_.kind == RunKind::latency; }
  [[nodiscard]] bool is_write_latency() const {
    return is_latency() && spec_.operation == Operation::write;
  }
  [[nodiscard]] bool is_send() const { return spec_.operation == Operation::send; }

  Backend& backend_;
  const Options& options_;
  PerftestRdmaCm* rdma_cm_;
  RunSpec spec_;
  Agreement agreement_;
  std::optional<Layout> layout_;
  Pump pump_;
  std::unique_ptr<PerftestCarrier> tcp_;  ///< without -R
  std::optional<PerftestExchange> exchange_;
  PerftestDestination own_;
  PerftestDestination peer_;
  std::string peer_version_;
  bool peer_gone_ = false;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Traffic> traffic_;
  std::optional<Measurement> measurement_;
};

}  // namespace rockhopper::apps::perf
