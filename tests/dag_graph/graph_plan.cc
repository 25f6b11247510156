// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/dag_graph/graph_plan.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/graph_builder.h"

namespace rockhopper::dag::test {
namespace {

using Generator = std::mt19937_64;

std::uint64_t below(Generator& generator, std::uint64_t end) {
  return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(generator);
}

EdgeConstraints random_constraints(Generator& generator) {
  EdgeConstraints constraints;
  if (below(generator, 8) == 0) constraints.set = kOrderOnly;
  if (below(generator, 8) == 0) {
    constraints.set |= kAffinity;
    constraints.affinity = static_cast<std::uint32_t>(below(generator, 4));
  }
  if (below(generator, 8) == 0) {
    constraints.set |= kNotBefore;
    constraints.not_before_ns = below(generator, 1000);
  }
  return constraints;
}

/// Of very different lengths, and none the beginning of another by chance only.
std::string random_key(Generator& generator, std::uint32_t number) {
  const std::string filling(below(generator, 10) == 0 ? below(generator, 100) : 0, 'x');
  return fmt::format("{:x}-{}{}", below(generator, 1 << 20), filling, number);
}

}  // namespace

GraphPlan random_plan(const RandomPlan& config) {
  Generator generator(config.seed);
  GraphPlan plan{.seed = generator(), .nodes = {}};
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < config.nodes; ++i) {
    NodePlan node;
    node.work_ns = below(generator, 1000);
    node.output_bytes.resize(1 + below(generator, config.tasks_max));
    for (std::uint64_t& bytes : node.output_bytes) {
      bytes = below(generator, std::uint64_t{config.output_bytes_max} + 1);
    }
    const std::uint64_t edges = i == 0 ? 0 : below(generator, 2 * config.edges_per_node + 1);
    for (std::uint64_t k = 0; k < edges; ++k) {
      const double place = std::pow(std::generate_canonical<double, 53>(generator), config.skew);
      const auto from = std::min(static_cast<std::uint32_t>(place * i), i - 1);
      node.predecessors.try_emplace(
          keys[from], config.constraints ? random_constraints(generator) : EdgeConstraints{});
    }
    keys.push_back(random_key(generator, i));
    plan.nodes.emplace(keys.back(), std::move(node));
  }
  return plan;
}

Expected<Graph> build(const GraphPlan& plan, const FunctionRegistry& registry) {
  std::vector<const std::pair<const std::string, NodePlan>*> nodes;
  nodes.reserve(plan.nodes.size());
  for (const auto& node : plan.nodes) {
    nodes.push_back(&node);
  }
  Generator generator(plan.seed);
  std::shuffle(nodes.begin(), nodes.end(), generator);
  GraphBuilder builder;
  for (const auto* node : nodes) {
    const auto& [key, node_plan] = *node;
    const NodeIndex index = builder.add_node({.key = key, .work_ns = node_plan.work_ns});
    for (const std::uint64_t bytes : node_plan.output_bytes) {
      builder.add_function(index, kDigestFunction,
                           DigestArguments{.seed = plan.seed, .output_bytes = bytes}.emit());
    }
    for (const auto& [from, constraints] : node_plan.predecessors) {
      builder.add_edge(from, key, constraints);
    }
  }
  return builder.build(registry);
}

FunctionRegistry digest_registry() {
  FunctionRegistry registry;
  (void)add_digest_function(registry);
  return registry;
}

}  // namespace rockhopper::dag::test
