// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "tests/interop/rc_endpoint.h"
#include "tests/interop/rc_exchange.h"
#include "tests/interop/rc_script.h"

namespace rockhopper::interop {

enum class Role : std::uint8_t { client, server };

/// What the client decides for both ends; it goes to the server in the first line.
struct RunOptions {
  ScriptOptions script;
  bool client_requests = true;
  bool server_requests = true;
  std::uint32_t late_receives = 0;      ///< see rc_script.h, step 1 of the flow
  bool client_waits_for_fence = false;  ///< see rc_script.h, order
  bool server_waits_for_fence = false;
  std::uint8_t max_rd_atomic = 16;
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;
  std::string negative;      ///< a case of rc_negative.h, or "all"; the script does not run then
  int stall_timeout_s = 60;  ///< without any progress for so long the run has failed
};
[[nodiscard]] Json to_json(const RunOptions& options);
/// Throws Failure where the line is not what to_json() makes.
[[nodiscard]] RunOptions run_options(const Json& line);

/// How this end's address comes to the peer, and back.
[[nodiscard]] Json to_json(const Address& address);
[[nodiscard]] Address address(const Json& line);
[[nodiscard]] Json to_json(const RemoteRegion& region);
[[nodiscard]] RemoteRegion remote_region(const Json& line);

/// Waits for the peer's next line. The endpoint goes on meanwhile: it may have to answer the peer's
/// neighbour discovery, or to acknowledge.
[[nodiscard]] Json receive_line(Endpoint& endpoint, Exchange& exchange, int timeout_s);

/// Runs one connection to its end and returns this end's summary; throws Failure.
/// The server's `options` are those that the client sends.
[[nodiscard]] Json run(Endpoint& endpoint, Exchange& exchange, Role role, RunOptions options,
                       std::uint32_t first_psn, bool show_progress);

}  // namespace rockhopper::interop
