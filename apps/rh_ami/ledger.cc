// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/ledger.h"

#include <fmt/format.h>

namespace rockhopper::apps::messages {

std::string Ledger::failures() const {
  std::string text;
  for (std::size_t status = 1; status < kStatuses; ++status) {
    if (called_[status] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", called_[status],
                        ami::to_string(static_cast<ami::Status>(status)));
  }
  return text;
}

}  // namespace rockhopper::apps::messages
