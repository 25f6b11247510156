// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/perftest_carrier.h"

namespace rockhopper::apps::perf {
namespace {

using namespace std::string_view_literals;

constexpr std::uint32_t kSendTimeoutMs = 30'000;

}  // namespace

Expected<void> PerftestTcpCarrier::send(std::string_view message) {
  return connection_.send(message, kSendTimeoutMs, background_);
}

Expected<std::string> PerftestTcpCarrier::receive(std::size_t bytes) {
  std::string message(bytes, '\0');
  ROCKHOPPER_TRY(connection_.receive(message, TcpConnection::kNoTimeout, background_));
  return message;
}

Expected<void> PerftestTcpCarrier::say_done() { return send("done\0"sv); }

}  // namespace rockhopper::apps::perf
