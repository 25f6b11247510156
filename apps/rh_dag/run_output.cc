// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_output.h"

#include "apps/services/dag/schedule/node_state.h"

namespace rockhopper::apps::dag_node {

Expected<void> check_node_key(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash != std::string_view::npos && slash > 0 && slash + 1 < key.size()) return {};
  return fail(ErrorCode::invalid_argument, "{:?} is no node: RUN/NODE is", key);
}

std::optional<dag::Pointer> output_of(const dag::ControlWords& control) {
  const auto phase = dag::NodeState::from(control[dag::kStateWord]).phase;
  if (phase != dag::NodePhase::done && phase != dag::NodePhase::released) return std::nullopt;
  const auto place =
      dag::OutputPlace::from(control[dag::kOutputWord], control[dag::kOutputWord + 1]);
  return dag::Pointer{.server = place.server,
                      .entry = {.incarnation = place.incarnation,
                                .address = place.address,
                                .length = static_cast<std::uint32_t>(place.length)}};
}

Expected<RecordResult> read_output(Records& records, const std::string& key) {
  auto node = records.run({.verb = Verb::get, .key = key});
  if (!node || node->status != dag::Status::ok) return node;
  const auto output = output_of(node->control);
  if (!output) return RecordResult{.status = dag::Status::not_found};
  return records.read(*output);
}

}  // namespace rockhopper::apps::dag_node
