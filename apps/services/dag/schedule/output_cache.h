// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/services/dag/graph/edge.h"

namespace rockhopper::dag {

/// The last small outputs that a worker has made or READ, so that it need not READ them (again) for
/// a successor: two round trips that its window is taken up by.
/// Each output has one place, where the next one with that place replaces it.
class OutputCache {
 public:
  static constexpr std::size_t kOutputMax = 256;  ///< larger ones are not kept
  static constexpr std::size_t kPlaces = 65536;

  OutputCache() : places_(kPlaces) {}
  void insert(std::uint64_t run, NodeIndex node, std::span<const std::byte> output) {
    if (output.size() > kOutputMax) return;
    Place& place = places_[index(run, node)];
    place.run = run;
    place.node = node;
    place.bytes.assign(output.begin(), output.end());
  }
  [[nodiscard]] std::optional<std::span<const std::byte>> find(std::uint64_t run,
                                                               NodeIndex node) const {
    const Place& place = places_[index(run, node)];
    if (place.run != run || place.node != node) return std::nullopt;
    return place.bytes;
  }

 private:
  struct Place {
    std::uint64_t run = 0;  ///< never a run's id
    NodeIndex node = 0;
    std::vector<std::byte> bytes;
  };
  [[nodiscard]] static std::size_t index(std::uint64_t run, NodeIndex node) {
    return (node + run * 0x9e3779b1) % kPlaces;
  }

  std::vector<Place> places_;
};

}  // namespace rockhopper::dag
