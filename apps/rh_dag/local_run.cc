// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/local_run.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/services/dag/graph/critical_path.h"
#include "apps/services/dag/graph/digest_task.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr const char* kWorker = "local";

/// The outputs that somebody will still read.
class Outputs {
 public:
  explicit Outputs(const dag::Graph& graph)
      : graph_(graph), outputs_(graph.size()), readers_(graph.size(), 0) {
    for (dag::NodeIndex node = 0; node < graph.size(); ++node) {
      const auto edges = graph.edges_of(node);
      readers_[node] = std::count_if(edges.begin(), edges.end(), &is_data);
    }
  }

  [[nodiscard]] std::vector<dag::TaskInput> inputs_of(dag::NodeIndex node) const {
    std::vector<dag::TaskInput> inputs;
    for (const dag::Predecessor& predecessor : graph_.predecessors(node)) {
      if (!is_data(graph_.edge(predecessor.edge))) continue;
      inputs.push_back({graph_.key(predecessor.from), outputs_[predecessor.from]});
    }
    return inputs;
  }

  void keep(dag::NodeIndex node, std::vector<std::byte>& output) {
    if (readers_[node] > 0) outputs_[node] = std::move(output);
    for (const dag::Predecessor& predecessor : graph_.predecessors(node)) {
      if (!is_data(graph_.edge(predecessor.edge)) || --readers_[predecessor.from] > 0) continue;
      std::vector<std::byte>().swap(outputs_[predecessor.from]);
    }
  }

 private:
  static bool is_data(const dag::Edge& edge) { return (edge.constraints.set & dag::kData) != 0; }

  const dag::Graph& graph_;
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::ptrdiff_t> readers_;  ///< that have not read it
};

/// When the node may start, by when those before it have ended.
std::uint64_t earliest_ns(const dag::Graph& graph, dag::NodeIndex node,
                          const std::vector<std::uint64_t>& ends_ns) {
  std::uint64_t earliest = 0;
  for (const dag::Predecessor& predecessor : graph.predecessors(node)) {
    const auto& constraints = graph.edge(predecessor.edge).constraints;
    earliest = std::max(earliest, ends_ns[predecessor.from] + constraints.not_before_ns);
  }
  return earliest;
}

Expected<void> wait_until(std::uint64_t time_ns) {
  constexpr std::uint64_t kNapNs = 5 * kNsPerMs;
  for (std::uint64_t now_ns = steady_now_ns(); now_ns < time_ns; now_ns = steady_now_ns()) {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(time_ns - now_ns, kNapNs)));
  }
  return {};
}

}  // namespace

RunHeader header_of(const dag::Graph& graph, std::string name) {
  const auto work = dag::work_of(graph);
  RunHeader header{.graph = std::move(name), .nodes = graph.size()};
  for (const std::uint64_t ns : work) {
    header.work_ns += ns;
  }
  header.critical_path_ns = dag::critical_path(graph, work).length_ns;
  return header;
}

Expected<LocalRun> run_local(const dag::Graph& graph, dag::NodeRunner& runner, RunLogWriter* log,
                             const std::function<void(std::uint64_t)>& on_node) {
  LocalRun result;
  Outputs outputs(graph);
  std::vector<dag::Digest> digests(graph.size());
  std::vector<std::uint64_t> ends_ns(graph.size(), 0);
  std::vector<std::byte> output;
  dag::Sha256 sha256;
  std::uint64_t done = 0;
  const std::uint64_t begin_ns = steady_now_ns();
  for (const dag::NodeIndex node : graph.topological_order()) {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    ROCKHOPPER_TRY(wait_until(earliest_ns(graph, node, ends_ns)));
    const auto inputs = outputs.inputs_of(node);
    const std::uint64_t start_ns = steady_now_ns();
    ROCKHOPPER_TRY(runner.run(graph, node, inputs, output));
    ends_ns[node] = steady_now_ns();
    if (log != nullptr) {
      log->write(to_line(NodeRun{.node = std::string(graph.key(node)),
                                 .worker = kWorker,
                                 .start_ns = start_ns,
                                 .end_ns = ends_ns[node]}));
    }
    sha256.add(output);
    digests[node] = sha256.finish();
    result.output_bytes += output.size();
    outputs.keep(node, output);
    on_node(++done);
  }
  result.passed_ns = steady_now_ns() - begin_ns;
  dag::GraphDigest digest;
  for (const dag::NodeIndex node : graph.by_key()) {
    digest.add(graph.key(node), digests[node]);
  }
  result.digest = digest.finish();
  return result;
}

}  // namespace rockhopper::apps::dag_node
