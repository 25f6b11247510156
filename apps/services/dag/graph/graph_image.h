// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/services/dag/graph/graph.h"

/// A whole graph as bytes: what a client uploads to a server. All numbers little endian, nothing
/// aligned:
///
///     header      48  magic 4, version 2, zero 2, bytes of the image 8, nodes 4, tasks 4, edges 4,
///                     zero 4, bytes of the parameters 8, bytes of the strings 8
///     nodes       24  work in ns 8, priority 4, edges 4, tasks 4, bytes of the key 4
///     tasks       16  kind 4, function 4, version 4, bytes of the arguments 4
///     edges        8  index of the successor 4, constraints 4
///     parameters      of each edge that has them: label 4 (affinity), ns 8 (not before)
///     strings         the keys of all nodes, the arguments of all tasks
///
/// A graph has one image only, and so its hash tells one graph from another.
namespace rockhopper::dag {

struct GraphImage {
  static constexpr std::uint32_t kMagic = 0x47444852;  // "RHDG" in memory
  static constexpr std::uint16_t kVersion = 1;
  static constexpr std::size_t kHeaderBytes = 48;
  static constexpr std::size_t kNodeBytes = 24;
  static constexpr std::size_t kTaskBytes = 16;
  static constexpr std::size_t kEdgeBytes = 8;
  static constexpr std::size_t kLabelBytes = 4;
  static constexpr std::size_t kTimeBytes = 8;
};

/// Bytes of the graph's image.
[[nodiscard]] std::uint64_t image_bytes(const Graph& graph);
/// Writes the image; `bytes` has image_bytes().
void emit_image(const Graph& graph, std::span<std::byte> bytes);
[[nodiscard]] std::vector<std::byte> to_image(const Graph& graph);

/// The graph of an image, checked as Graph::make does; `bytes` may be anything of any length, but
/// must not change meanwhile: memory that a peer can write is copied first.
[[nodiscard]] Expected<Graph> parse_image(std::span<const std::byte> bytes,
                                          const FunctionRegistry& registry,
                                          const GraphLimits& limits = {});

/// The longest image that such a graph can have.
[[nodiscard]] constexpr std::uint64_t image_bytes_max(const GraphLimits& limits) {
  return GraphImage::kHeaderBytes + std::uint64_t{limits.nodes} * GraphImage::kNodeBytes +
         std::uint64_t{limits.tasks} * GraphImage::kTaskBytes +
         std::uint64_t{limits.edges} *
             (GraphImage::kEdgeBytes + GraphImage::kLabelBytes + GraphImage::kTimeBytes) +
         limits.strings_bytes;
}

}  // namespace rockhopper::dag
