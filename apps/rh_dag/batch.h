// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rh_dag/record_task.h"
#include "apps/rh_dag/records.h"

namespace rockhopper::apps::dag_node {

/// A line of a batch: one thing to do with a record, or many reads.
struct BatchLine {
  RecordTask task;
  std::uint64_t reads = 0;  ///< above 0: of these keys, altogether
  std::vector<std::string> keys{};
};

/// Words with blanks between them; a value is all that is left:
///
///   get KEY            create KEY VALUE    put KEY VALUE    update KEY VALUE
///   delete KEY         resize KEY BYTES    add KEY WORD N   read COUNT KEY...
[[nodiscard]] Expected<BatchLine> parse_batch_line(std::string_view text);

/// Does what the lines of a file (- is standard input) say, each when it has come, and answers with
/// a line each. Empty lines and those with # are left out. Fails at the end if some could not be
/// done, and at once at a line that says nothing.
[[nodiscard]] Expected<void> run_batch(Records& records, const std::string& path, bool json);

}  // namespace rockhopper::apps::dag_node
