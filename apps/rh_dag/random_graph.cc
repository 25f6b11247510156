// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/random_graph.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include <fmt/format.h>

#include "apps/rh_dag/functions.h"
#include "apps/rh_dag/workflow_graph.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/graph_builder.h"
#include "roce/random.h"
#include "stack/quantity.h"
#include "stack/split_list.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint32_t kEdgesMax = 64;

Expected<std::uint64_t> number_of(std::string_view name, std::string_view text, std::uint64_t least,
                                  std::uint64_t most) {
  std::uint64_t value = 0;
  const bool read = name == "work"    ? stack::parse_time(text, value)
                    : name == "bytes" ? stack::parse_bytes(text, value)
                                      : stack::parse_unsigned(text, value);
  if (read && value >= least && value <= most) return value;
  return fail(ErrorCode::invalid_argument, "--random: {}={}: expected is a value from {} to {}",
              name, text, least, most);
}

}  // namespace

Expected<RandomGraph> parse_random_graph(std::string_view text) {
  RandomGraph random;
  const dag::GraphLimits limits;
  const auto set = [&](std::string_view name, std::string_view value) -> Expected<void> {
    const auto take = [&](auto& to, std::uint64_t least, std::uint64_t most) -> Expected<void> {
      ROCKHOPPER_TRY(auto number, number_of(name, value, least, most));
      to = static_cast<std::remove_reference_t<decltype(to)>>(number);
      return {};
    };
    if (name == "nodes") return take(random.nodes, 1, limits.nodes);
    if (name == "seed") return take(random.seed, 0, UINT64_MAX);
    if (name == "edges") return take(random.edges, 0, kEdgesMax);
    if (name == "width") return take(random.width, 0, UINT32_MAX);
    if (name == "bytes") return take(random.bytes, 0, kOutputBytesMax);
    if (name == "work") return take(random.work_ns, 0, 3'600'000'000'000);
    return fail(ErrorCode::invalid_argument,
                "--random: {:?} is none of nodes, seed, edges, width, bytes, work", name);
  };
  ROCKHOPPER_TRY(stack::split_list(text, [&](std::string_view item) -> Expected<void> {
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return fail(ErrorCode::invalid_argument, "--random: {:?} is not as nodes=1000", item);
    }
    return set(item.substr(0, equals), item.substr(equals + 1));
  }));
  return random;
}

Expected<dag::Graph> make_random_graph(const RandomGraph& random,
                                       const dag::FunctionRegistry& registry) {
  roce::SeededRandom chance(random.seed);
  dag::GraphBuilder builder;
  const auto arguments =
      dag::DigestArguments{.seed = random.seed, .output_bytes = random.bytes}.emit();
  const auto wait = emit_wait(random.work_ns);
  std::vector<dag::NodeIndex> predecessors;
  for (std::uint32_t i = 0; i < random.nodes; ++i) {
    const auto node =
        builder.add_node({.key = fmt::format("n{:07}", i), .work_ns = random.work_ns});
    if (random.work_ns > 0) builder.add_function(node, kWaitFunction, wait);
    builder.add_function(node, dag::kDigestFunction, arguments);
    const std::uint32_t before = random.width == 0 ? i : std::min(i, random.width);
    predecessors.clear();
    for (std::uint32_t edge = 0; edge < random.edges && before > 0; ++edge) {
      predecessors.push_back(i - 1 - static_cast<std::uint32_t>(chance.below(before)));
    }
    std::sort(predecessors.begin(), predecessors.end());
    predecessors.erase(std::unique(predecessors.begin(), predecessors.end()), predecessors.end());
    for (const dag::NodeIndex from : predecessors) {
      builder.add_edge(from, node);
    }
  }
  return builder.build(registry);
}

}  // namespace rockhopper::apps::dag_node
