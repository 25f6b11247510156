// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/node_copy.h"

#include <algorithm>
#include <optional>

namespace rockhopper::dag {

bool NodeCopy::parse(std::span<const std::byte> bytes, const DequeEntry& entry,
                     const WorkerRuns& runs) {
  const BoardView::Run& run = runs.at(entry.run);
  const RecordView record = examine_record(bytes, run.first_incarnation + entry.node, std::nullopt);
  if (record.verdict != Verdict::match || !parse_node(record.data, node_) ||
      node_.node != entry.node) {
    return false;
  }
  record_key_ = {reinterpret_cast<const char*>(bytes.data()) + sizeof(RecordHeader),
                 record.header.key_length};
  run_length_ = run.name.size();
  if (record_key_.size() <= run_length_ + 1 || !record_key_.starts_with(run.name) ||
      record_key_[run_length_] != '/') {
    return false;
  }
  const auto is_in_run = [&](const NodeLink& link) { return runs.may_lead_to(entry.run, link); };
  return std::all_of(node_.predecessors.begin(), node_.predecessors.end(), is_in_run) &&
         std::all_of(node_.successors.begin(), node_.successors.end(), is_in_run);
}

}  // namespace rockhopper::dag
