// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/dc_endpoint.h"
#include "apps/common/endpoint.h"
#include "apps/common/page_memory.h"
#include "apps/rh_dag/graph_parser.h"
#include "apps/rh_dag/greeting.h"
#include "apps/rh_dag/serve_options.h"
#include "apps/services/dag/graph/function_registry.h"
#include "apps/services/dag/schedule/home.h"
#include "apps/services/dag/server.h"

namespace rockhopper::apps::dag_node {

/// A server's end: an endpoint, the store's memory, who serves it, the home of runs, and the turns
/// of all.
class StoreNode final : public Background, private dag::ServerListener, private dag::HomeListener {
 public:
  using OnFenced = std::function<void(dag::ClientId)>;

  /// `options` must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<StoreNode>> create(
      const ServeOptions& options, const EndpointConfig& config, const stack::Arguments& arguments);
  ~StoreNode() override;

  /// Who is told of clients that have been fenced, from within turn().
  void set_on_fenced(OnFenced on_fenced) { on_fenced_ = std::move(on_fenced); }
  [[nodiscard]] Offer offer() const;
  /// Whoever has said this hello is a client from now on.
  [[nodiscard]] Expected<Welcome> admit(const Hello& hello);
  void dismiss(dag::ClientId id);

  /// Packets move on, and nothing else does: nobody answers requests, no lease ends.
  void set_stopped(bool stopped) { stopped_ = stopped; }
  [[nodiscard]] bool stopped() const { return stopped_; }

  bool turn() override;
  [[nodiscard]] std::uint64_t now_ns() const { return endpoint_->now_ns(); }

  [[nodiscard]] nlohmann::json report() const;
  void print_statistics(std::FILE* out) const;

 private:
  StoreNode(const ServeOptions& options, std::unique_ptr<Endpoint> endpoint);
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] Expected<void> make_home();
  [[nodiscard]] bool decide_runs();
  void print_changed_runs();
  void on_fenced(dag::ClientId id) override;
  void on_submitted(dag::RunId run, std::vector<std::byte> image) override;
  void on_run_changed(dag::RunId run, dag::RunPhase phase) override;

  const ServeOptions& options_;
  OnFenced on_fenced_;
  std::unique_ptr<Endpoint> endpoint_;
  std::optional<DcEndpoint> dc_;
  PageMemory memory_;
  std::unique_ptr<dag::Store> store_;
  dag::FunctionRegistry functions_;
  PageMemory board_;
  std::unique_ptr<dag::Home> home_;
  std::unique_ptr<GraphParser> parser_;
  std::vector<dag::RunId> changed_runs_;
  std::unique_ptr<dag::Server> server_;
  std::vector<stack::CounterGroup> counters_;
  bool stopped_ = false;
  std::uint64_t turns_ = 0;
  std::uint64_t now_ns_ = 0;
};

}  // namespace rockhopper::apps::dag_node
