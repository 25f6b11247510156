// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string_view>
#include <vector>

#include "tests/interop/rc_run.h"

namespace rockhopper::interop {

/// Negative cases: the client requests something that must be refused, and both ends report what
/// they saw, so that a run between two devices of one kind is the measure for another pairing.
///
/// Each case uses a fresh queue pair, with PSNs far from those of the others, so that a capture
/// tells them apart. Lines, each way: the case with the address and region
/// ({"case":name,"qpn":...,"region":{...},"keys":[...]}), {"connected":true}, then {"go":true} from
/// the server once it has prepared, {"result":{...}} from the client, and the same from the server.
/// The client's result: `completions` (the request in question, then two SENDs that were posted
/// behind it: {"id", "status"}; status "not_posted" where the device refused to take it), `state`
/// of its queue pair, `events`. The server's: `completions` of its receives, `state`, `events`,
/// `region_changed`.
[[nodiscard]] std::vector<std::string_view> negative_cases();

/// Runs options.negative (one case, or "all"). The client's summary holds both ends' results.
[[nodiscard]] Json run_negative(Endpoint& endpoint, Exchange& exchange, Role role,
                                const RunOptions& options, std::uint32_t path_mtu,
                                std::uint32_t first_psn);

}  // namespace rockhopper::interop
