// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/graph_image.h"

#include <utility>

#include "apps/services/dag/graph/little_endian.h"

namespace rockhopper::dag {
namespace {

struct Header {
  std::uint64_t bytes = 0;
  std::uint32_t nodes = 0;
  std::uint32_t tasks = 0;
  std::uint32_t edges = 0;
  std::uint64_t parameters_bytes = 0;
  std::uint64_t strings_bytes = 0;
};

std::uint64_t parameters_bytes(const EdgeConstraints& constraints) {
  return ((constraints.set & kAffinity) != 0 ? GraphImage::kLabelBytes : 0) +
         ((constraints.set & kNotBefore) != 0 ? GraphImage::kTimeBytes : 0);
}

Header header_of(const GraphParts& parts) {
  Header header{.nodes = static_cast<std::uint32_t>(parts.nodes.size()),
                .tasks = static_cast<std::uint32_t>(parts.tasks.size()),
                .edges = static_cast<std::uint32_t>(parts.edges.size()),
                .strings_bytes = parts.strings.size()};
  for (const Edge& edge : parts.edges) {
    header.parameters_bytes += parameters_bytes(edge.constraints);
  }
  header.bytes = GraphImage::kHeaderBytes + parts.nodes.size() * GraphImage::kNodeBytes +
                 parts.tasks.size() * GraphImage::kTaskBytes +
                 parts.edges.size() * GraphImage::kEdgeBytes + header.parameters_bytes +
                 header.strings_bytes;
  return header;
}

/// The sections of an image are as long as the header says, and the image has nothing else.
Expected<Header> parse_header(std::span<const std::byte> bytes, const GraphLimits& limits) {
  if (bytes.size() < GraphImage::kHeaderBytes) {
    return fail(ErrorCode::invalid_argument, "the graph's image ends within its header");
  }
  LittleEndianReader reader(bytes);
  if (reader.take<std::uint32_t>() != GraphImage::kMagic) {
    return fail(ErrorCode::invalid_argument, "this is no graph's image");
  }
  if (const auto version = reader.take<std::uint16_t>(); version != GraphImage::kVersion) {
    return fail(ErrorCode::unsupported, "the graph's image has version {}, known is {}", version,
                GraphImage::kVersion);
  }
  bool zeros = reader.take<std::uint16_t>() == 0;
  Header header;
  header.bytes = reader.take<std::uint64_t>();
  header.nodes = reader.take<std::uint32_t>();
  header.tasks = reader.take<std::uint32_t>();
  header.edges = reader.take<std::uint32_t>();
  zeros = reader.take<std::uint32_t>() == 0 && zeros;
  header.parameters_bytes = reader.take<std::uint64_t>();
  header.strings_bytes = reader.take<std::uint64_t>();
  if (!zeros) {
    return fail(ErrorCode::invalid_argument,
                "the header of the graph's image is not zero where it "
                "must be");
  }
  if (header.bytes != bytes.size()) {
    return fail(ErrorCode::invalid_argument, "the graph's image says {} bytes, and there are {}",
                header.bytes, bytes.size());
  }
  // Before anything is reserved for them. With limits on both, the sum cannot overflow.
  if (header.nodes > limits.nodes || header.tasks > limits.tasks || header.edges > limits.edges) {
    return fail(ErrorCode::exhausted,
                "the graph has {} nodes, {} tasks and {} edges; the limits are {}, {} and {}",
                header.nodes, header.tasks, header.edges, limits.nodes, limits.tasks, limits.edges);
  }
  if (header.parameters_bytes > bytes.size() || header.strings_bytes > bytes.size() ||
      GraphImage::kHeaderBytes + std::uint64_t{header.nodes} * GraphImage::kNodeBytes +
              std::uint64_t{header.tasks} * GraphImage::kTaskBytes +
              std::uint64_t{header.edges} * GraphImage::kEdgeBytes + header.parameters_bytes +
              header.strings_bytes !=
          bytes.size()) {
    return fail(ErrorCode::invalid_argument,
                "the sections of the graph's image are not as long as the image");
  }
  return header;
}

GraphParts::Node take_node(LittleEndianReader& reader) {
  GraphParts::Node node;
  node.work_ns = reader.take<std::uint64_t>();
  node.priority = reader.take<std::int32_t>();
  node.edges = reader.take<std::uint32_t>();
  node.tasks = reader.take<std::uint32_t>();
  node.key_bytes = reader.take<std::uint32_t>();
  return node;
}

Expected<GraphParts::Task> take_task(LittleEndianReader& reader) {
  const auto kind = reader.take<std::uint32_t>();
  GraphParts::Task task;
  task.function.number = reader.take<std::uint32_t>();
  task.function.version = reader.take<std::uint32_t>();
  task.arguments_bytes = reader.take<std::uint32_t>();
  if (kind != static_cast<std::uint32_t>(TaskKind::function) &&
      kind != static_cast<std::uint32_t>(TaskKind::command)) {
    return fail(ErrorCode::invalid_argument, "the graph's image has a task of kind {}", kind);
  }
  task.kind = static_cast<TaskKind>(kind);
  return task;
}

/// Takes an edge, and what it has of the parameters from their front.
Expected<Edge> take_edge(LittleEndianReader& reader, std::span<const std::byte>& parameters) {
  Edge edge;
  edge.to = reader.take<std::uint32_t>();
  const auto set = reader.take<std::uint32_t>();
  if (set > UINT8_MAX) {
    return fail(ErrorCode::invalid_argument, "the graph's image has an edge with constraints {:#x}",
                set);
  }
  edge.constraints.set = static_cast<std::uint8_t>(set);
  const std::uint64_t bytes = parameters_bytes(edge.constraints);
  if (bytes > parameters.size()) {
    return fail(ErrorCode::invalid_argument,
                "the graph's image has fewer parameters than its edges");
  }
  LittleEndianReader values(parameters);
  if ((set & kAffinity) != 0) edge.constraints.affinity = values.take<std::uint32_t>();
  if ((set & kNotBefore) != 0) edge.constraints.not_before_ns = values.take<std::uint64_t>();
  parameters = parameters.subspan(bytes);
  return edge;
}

}  // namespace

std::uint64_t image_bytes(const Graph& graph) { return header_of(graph.parts()).bytes; }

void emit_image(const Graph& graph, std::span<std::byte> bytes) {
  const GraphParts& parts = graph.parts();
  const Header header = header_of(parts);
  LittleEndianWriter writer(bytes);
  writer.put(GraphImage::kMagic);
  writer.put(GraphImage::kVersion);
  writer.put(std::uint16_t{0});
  writer.put(header.bytes);
  writer.put(header.nodes);
  writer.put(header.tasks);
  writer.put(header.edges);
  writer.put(std::uint32_t{0});
  writer.put(header.parameters_bytes);
  writer.put(header.strings_bytes);
  for (const GraphParts::Node& node : parts.nodes) {
    writer.put(node.work_ns);
    writer.put(node.priority);
    writer.put(node.edges);
    writer.put(node.tasks);
    writer.put(node.key_bytes);
  }
  for (const GraphParts::Task& task : parts.tasks) {
    writer.put(static_cast<std::uint32_t>(task.kind));
    writer.put(task.function.number);
    writer.put(task.function.version);
    writer.put(task.arguments_bytes);
  }
  for (const Edge& edge : parts.edges) {
    writer.put(edge.to);
    writer.put(std::uint32_t{edge.constraints.set});
  }
  for (const Edge& edge : parts.edges) {
    if ((edge.constraints.set & kAffinity) != 0) writer.put(edge.constraints.affinity);
    if ((edge.constraints.set & kNotBefore) != 0) writer.put(edge.constraints.not_before_ns);
  }
  writer.put(std::span<const std::byte>(parts.strings));
}

std::vector<std::byte> to_image(const Graph& graph) {
  std::vector<std::byte> bytes(image_bytes(graph));
  emit_image(graph, bytes);
  return bytes;
}

Expected<Graph> parse_image(std::span<const std::byte> bytes, const FunctionRegistry& registry,
                            const GraphLimits& limits) {
  ROCKHOPPER_TRY(const auto header, parse_header(bytes, limits));
  GraphParts parts;
  LittleEndianReader reader(bytes.subspan(GraphImage::kHeaderBytes));
  parts.nodes.reserve(header.nodes);
  for (std::uint32_t i = 0; i < header.nodes; ++i) {
    parts.nodes.push_back(take_node(reader));
  }
  parts.tasks.reserve(header.tasks);
  for (std::uint32_t i = 0; i < header.tasks; ++i) {
    ROCKHOPPER_TRY(const auto task, take_task(reader));
    parts.tasks.push_back(task);
  }
  const auto strings = bytes.last(header.strings_bytes);
  auto parameters = bytes.first(bytes.size() - header.strings_bytes).last(header.parameters_bytes);
  parts.edges.reserve(header.edges);
  for (std::uint32_t i = 0; i < header.edges; ++i) {
    ROCKHOPPER_TRY(const auto edge, take_edge(reader, parameters));
    parts.edges.push_back(edge);
  }
  if (!parameters.empty()) {
    return fail(ErrorCode::invalid_argument,
                "the graph's image has more parameters than its edges");
  }
  parts.strings.assign(strings.begin(), strings.end());
  return Graph::make(std::move(parts), registry, limits);
}

}  // namespace rockhopper::dag
