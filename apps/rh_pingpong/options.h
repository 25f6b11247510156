// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/common/command_line.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/initiator_options.h"
#include "apps/common/option_set.h"
#include "apps/rh_pingpong/transport.h"

namespace rockhopper::apps::pingpong {

/// The options of ibv_rc_pingpong and its sisters, and ours.
struct Options {
  Transport transport = Transport::rc;
  std::uint32_t queue_pairs = 1;  ///< DC: targets of each end
  InitiatorOptions initiator;     ///< DC
  std::string host;               ///< empty: server
  std::uint16_t port = 18515;
  std::uint32_t size = 4096;
  std::uint16_t path_mtu = 1024;
  std::uint32_t rx_depth = 500;
  std::uint64_t iterations = 1000;
  unsigned service_level = 0;
  bool events = false;
  std::optional<unsigned> gid_index;
  bool check = false;
  double timeout_s = 10;
  unsigned ack_timeout = 14;
  bool json = false;
  EndpointOptions endpoint;

  [[nodiscard]] Role role() const { return host.empty() ? Role::server : Role::client; }
};

void add_options(const OptionSet& app, Options& options);

}  // namespace rockhopper::apps::pingpong
