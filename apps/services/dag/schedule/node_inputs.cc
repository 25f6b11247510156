// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/node_inputs.h"

#include <algorithm>
#include <cassert>

namespace rockhopper::dag {

void NodeInputs::begin(const NodeView& node, std::uint64_t run, const OutputCache& cache) {
  node_ = &node;
  status_ = Status::ok;
  sources_.clear();
  for (std::uint32_t i = 0; i < node.predecessors.size(); ++i) {
    if ((node.predecessors[i].constraints.set & kData) != 0) sources_.push_back(i);
  }
  if (inputs_.size() < size()) inputs_.resize(size());
  is_cached_.assign(size(), false);
  cached_ = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const auto bytes = cache.find(run, source(i).node);
    if (!bytes) continue;
    take(i, *bytes);
    is_cached_[i] = true;
    ++cached_;
  }
}

void NodeInputs::take(std::size_t input, std::span<const std::byte> bytes) {
  assert(input < size() && !is_cached_[input]);
  inputs_[input].assign(bytes.begin(), bytes.end());
}

void NodeInputs::fill(OutputCache& cache, std::uint64_t run) const {
  assert(status_ == Status::ok);
  for (std::size_t i = 0; i < size(); ++i) {
    if (!is_cached_[i]) cache.insert(run, source(i).node, inputs_[i]);
  }
}

std::span<const TaskInput> NodeInputs::for_tasks() {
  task_inputs_.clear();
  for (std::size_t i = 0; i < size(); ++i) {
    task_inputs_.push_back({.key = source(i).key, .bytes = inputs_[i]});
  }
  return task_inputs_;
}

void NodeInputs::trim(std::size_t bytes_max) {
  for (auto& input : inputs_) {
    if (input.capacity() > bytes_max) input = {};
  }
}

}  // namespace rockhopper::dag
