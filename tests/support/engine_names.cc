// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/support/engine_names.h"

#include <array>

namespace rockhopper::test {

std::string event_type_name(roce::AsyncEventType type) {
  static constexpr std::array<const char*, 14> kNames = {
      "cq_err",      "qp_fatal",          "qp_req_err",          "qp_access_err",    "comm_est",
      "sq_drained",  "srq_limit_reached", "qp_last_wqe_reached", "port_active",      "port_err",
      "pkey_change", "gid_change",        "duplicate_address",   "path_mtu_exceeded"};
  return kNames.at(static_cast<std::size_t>(type));
}

}  // namespace rockhopper::test
