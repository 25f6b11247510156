// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <array>

#include "roce/cm/connection.h"
#include "roce/cm/event.h"
#include "roce/name_table.h"

namespace rockhopper::roce::cm {

std::string_view to_string(State state) {
  static constexpr std::array<std::string_view, 8> kNames = {"REQ_SENT", "REQ_RCVD",    "REP_SENT",
                                                             "REP_RCVD", "ESTABLISHED", "DREQ_SENT",
                                                             "TIMEWAIT", "CLOSED"};
  return name_of(state, kNames);
}

std::string_view to_string(EventType type) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "connect request", "connect response", "established",  "rejected",
      "unreachable",     "connect error",    "disconnected", "timewait exit",
      "lookup request",  "resolved",         "lookup failed"};
  return name_of(type, kNames);
}

}  // namespace rockhopper::roce::cm
