// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/descriptor.h"

namespace rockhopper::ami {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::unreachable:
      return "unreachable";
    case Status::refused:
      return "refused by the peer";
    case Status::unknown_handler:
      return "unknown handler";
    case Status::outcome_unknown:
      return "outcome unknown";
    case Status::flushed:
      return "flushed";
    case Status::canceled:
      return "canceled";
    case Status::invalid:
      return "invalid";
  }
  return "?";
}

}  // namespace rockhopper::ami
