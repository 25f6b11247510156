// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/page_memory.h"
#include "apps/common/service_node.h"
#include "apps/rh_dag/graph_parser.h"
#include "apps/rh_dag/greeting.h"
#include "apps/services/dag/graph/function_registry.h"
#include "apps/services/dag/schedule/home.h"
#include "apps/services/dag/server.h"

namespace rockhopper::apps::dag_node {

struct ServeOptions {
  std::uint16_t port = kDefaultPort;
  std::uint64_t memory_bytes = 0;
  std::uint32_t records = 1u << 18;
  unsigned hash_bits = 64;
  std::uint64_t record_max = 0;
  std::uint64_t quarantine_ns = 0;
  std::uint64_t lease_ns = 0;
  std::uint16_t clients_max = 256;
  std::uint32_t runs = 16;
  std::uint32_t workers = 64;
  std::uint16_t path_mtu = 0;  ///< 0: the largest
  unsigned ack_timeout = 14;
  bool json = false;
  EndpointOptions endpoint;
};

/// A server's end: an endpoint, the store's memory, who serves it, the home of runs, and the turns
/// of all.
class StoreNode final : public ServiceNode, private dag::ServerListener, private dag::HomeListener {
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

  [[nodiscard]] nlohmann::json report() const;

 private:
  StoreNode(const ServeOptions& options, std::unique_ptr<Endpoint> endpoint)
      : ServiceNode(std::move(endpoint), options.endpoint), options_(options) {}
  [[nodiscard]] bool progress(std::uint64_t now_ns) override;
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] Expected<void> make_home();
  [[nodiscard]] bool decide_runs();
  void print_changed_runs();
  void on_fenced(dag::ClientId id) override;
  void on_submitted(dag::RunId run, std::vector<std::byte> image) override;
  void on_run_changed(dag::RunId run, dag::RunPhase phase) override;

  const ServeOptions& options_;
  OnFenced on_fenced_;
  PageMemory memory_;
  std::unique_ptr<dag::Store> store_;
  dag::FunctionRegistry functions_;
  PageMemory board_;
  std::unique_ptr<dag::Home> home_;
  std::unique_ptr<GraphParser> parser_;
  std::vector<dag::RunId> changed_runs_;
  std::unique_ptr<dag::Server> server_;
  bool stopped_ = false;
  std::uint64_t turns_ = 0;
};

}  // namespace rockhopper::apps::dag_node
