// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A graph of tasks, which are records in a server's store. A worker on another node takes what is
// ready, runs it, writes the output and tells the successors, all by RDMA in the server's memory.
//
//   rock ------+
//              +--> bird
//   together --+
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/client.h"
#include "apps/services/dag/graph/graph_builder.h"
#include "apps/services/dag/graph/node_runner.h"
#include "apps/services/dag/schedule/home.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/server.h"
#include "apps/services/dag/store.h"
#include "support.h"

using example::must;
using namespace rockhopper;

namespace {

constexpr std::uint64_t kTimeoutNs = 60'000'000'000;
constexpr dag::FunctionId kText{.number = 1, .version = 1};
constexpr dag::FunctionId kJoin{.number = 2, .version = 1};

/// What tasks can be told to do. Code is never shipped: a task names a function and its version.
dag::FunctionRegistry make_functions() {
  dag::FunctionRegistry functions;
  using Output = std::vector<std::byte>;
  must(functions.add(kText, "text", [](const dag::TaskCall& call, Output& output) {
    output.assign(call.arguments.begin(), call.arguments.end());
    return Expected<void>{};
  }));
  must(functions.add(kJoin, "join", [](const dag::TaskCall& call, Output& output) {
    for (const dag::TaskInput& input : call.inputs) {  // in the order of their keys
      output.insert(output.end(), input.bytes.begin(), input.bytes.end());
    }
    return Expected<void>{};
  }));
  return functions;
}

/// Runs tasks at once, in the worker's turn, and keeps what the last one came to.
struct Executor final : dag::NodeExecutor {
  Executor(const dag::FunctionRegistry& functions, const Node& on) : node(on), runner(functions) {}
  [[nodiscard]] std::size_t room() const override { return 1; }
  void start(const Job& job) override {
    std::vector<std::byte> output;
    must(runner.run(job.key, job.tasks, job.inputs, output));
    last.assign(reinterpret_cast<const char*>(output.data()), output.size());
    worker->complete(job.ticket, std::span<const std::byte>(output), node.now_ns(), node.now_ns());
  }
  const Node& node;  // whose clock says when a task was run
  dag::NodeRunner runner;
  dag::Worker* worker = nullptr;
  std::string last;
};

struct HomeListener final : dag::HomeListener {
  void on_submitted(dag::RunId, std::vector<std::byte>) override {}  // no client does
};

/// Passes on to the worker what its client is told.
struct Listener final : dag::ClientListener, dag::WorkerListener {
  void on_result(const dag::Result& result) override { worker->on_result(result); }
  void on_server_lost(std::uint16_t server) override { worker->on_server_lost(server); }
  void on_node(const dag::NodeReport& report) override {
    if (report.committed) order.emplace_back(report.key);
  }
  void on_lost(dag::Status) override {}
  dag::Worker* worker = nullptr;
  std::vector<std::string> order;
};

}  // namespace

int main() {
  const dag::FunctionRegistry functions = make_functions();
  HomeListener home_listener;
  dag::ServerListener server_listener;
  Listener listener;
  const dag::HomeConfig home_config;
  example::Memory records(8 << 20);  // workers ask for a MiB of it at a time, for outputs
  example::Memory board(home_config.board.bytes());
  example::TwoNodes nodes;
  Executor executor(functions, *nodes.near);
  const std::uint64_t start_ns = nodes.near->now_ns();

  // The server: a store for records, and beside it the home of runs, which keeps the board.
  const auto store = must(dag::Store::create(records.span(), {}));
  const auto home = must(dag::Home::create(*store, board.span(), home_listener, home_config));
  const auto server =
      must(dag::Server::create(nodes.far->engine(), nodes.far->dc(), *store, server_listener,
                               {.application = home.get(), .application_memory = board.span()}));
  // The worker, which is a client of the server like any other.
  const auto placement = must(dag::Placement::create(dag::PlacementPolicy::hash, 1));
  const auto client = must(dag::Client::create(nodes.near->engine(), nodes.near->dc(), placement,
                                               listener, {.entries = 1024}));
  const roce::AddressVector there{.source = nodes.near->address(),
                                  .destination = nodes.far->address()};
  const dag::Grant grant = must(server->add_client(
      example::address_of(client->target(0), *nodes.near, *nodes.far), start_ns));
  must(client->connect(0, there, grant, start_ns));
  const auto worker = must(dag::Worker::create({.engine = nodes.near->engine(),
                                                .endpoint = nodes.near->dc(),
                                                .client = *client,
                                                .home = 0,
                                                .home_av = there,
                                                .grant = grant,
                                                .outputs = placement,
                                                .executor = executor,
                                                .listener = listener},
                                               {}));
  listener.worker = executor.worker = worker.get();

  dag::GraphBuilder graph;
  const auto add = [&](const char* key, dag::FunctionId function, std::string_view text) {
    graph.add_function(graph.add_node({.key = key}), function, std::as_bytes(std::span(text)));
  };
  add("rock", kText, "rock");
  add("together", kText, "hopper");
  add("bird", kJoin, "");
  graph.add_edge("rock", "bird");  // the successor reads the predecessor's output
  graph.add_edge("together", "bird");
  (void)must(home->submit("run", must(graph.build(functions)), 1, {}));
  const auto is_complete = [&] { return home->runs()[0].phase == dag::RunPhase::complete; };
  // The worker is told of its last node when the run is complete already.
  while (!(is_complete() && worker->idle()) && nodes.near->now_ns() < start_ns + kTimeoutNs) {
    nodes.turn();
    const std::uint64_t now_ns = nodes.near->now_ns();
    server->progress(now_ns);
    home->progress(now_ns);
    client->progress(now_ns);
    worker->progress(now_ns);
  }
  example::verify(is_complete(), "the run is complete");
  const bool in_order = listener.order.size() == 3 && listener.order.back() == "bird";
  example::verify(in_order, "each node ran once, and the last one after those that it reads");
  example::verify(executor.last == "rockhopper", executor.last.c_str());
  return 0;
}
