// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/command_line.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "apps/common/transport.h"
#include "apps/rh_publish/input.h"
#include "apps/rh_publish/store_spec.h"
#include "stack/ip_address.h"

namespace rockhopper::apps::publish {

/// The TCP port of both programs.
inline constexpr std::uint16_t kDefaultPort = 18517;

struct Options {
  std::uint16_t port = kDefaultPort;
  Transport transport = Transport::rc;
  std::vector<StoreSpec> stores;
  std::vector<std::string> input_texts;  ///< as given
  std::vector<InputSpec> inputs;         ///< each with a store
  InputSettings input;
  KeyRule key;
  std::uint32_t wait = 0;  ///< subscribers that have to be there before anything is published
  bool stay = false;       ///< after the end of all inputs
  double linger_s = 10;    ///< for subscribers to take what is left
  std::string policy;      ///< a file; empty: everybody may read everything
  std::uint16_t subscribers_max = 256;
  double heartbeat_ms = 100;
  std::optional<stack::IpAddress> multicast;  ///< where copies of messages go
  std::uint16_t path_mtu = 0;                 ///< 0: the largest
  unsigned ack_timeout = 14;
  bool json = false;
  EndpointOptions endpoint;
};

/// Adds them, and what checks that all fit each other. Without --store there is one of 16 MiB with
/// the name "default", without --input it has lines from standard input.
void add_options(const OptionSet& app, Options& options);

}  // namespace rockhopper::apps::publish
