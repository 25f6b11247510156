// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

namespace rockhopper::test {

// What verbs calls things, in small letters and without prefix: for reports that are compared with
// those of another implementation. Free of DPDK and of libibverbs.

/// Of an enum ibv_wc_status, whose numbers roce::WcStatus has too: "loc_len_err".
[[nodiscard]] std::string wc_status_name(unsigned status);
/// Of an enum ibv_event_type: "qp_access_err".
[[nodiscard]] std::string event_type_name(unsigned type);

}  // namespace rockhopper::test
