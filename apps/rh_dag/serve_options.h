// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "apps/rh_dag/greeting.h"

namespace rockhopper::apps::dag_node {

struct ServeOptions {
  std::uint16_t port = kDefaultPort;
  std::uint64_t memory_bytes = 0;
  std::uint32_t records = 1u << 18;
  unsigned hash_bits = 64;
  std::uint32_t record_max = 0;
  std::uint64_t quarantine_ns = 0;
  std::uint64_t lease_ns = 0;
  std::uint16_t clients_max = 256;
  std::uint32_t runs = 16;
  std::uint32_t workers = 64;
  std::uint16_t path_mtu = 0;  ///< 0: the largest
  unsigned ack_timeout = 14;
  bool json = false;
  EndpointOptions endpoint;
};

/// The options as OptionParser fills them in, before finish_options() makes sense of them.
struct RawServeOptions {
  ServeOptions options;
  std::string memory = "256MiB";
  std::string record_max = "1MiB";
  std::string quarantine = "500ms";
  std::string lease = "1s";
};

void add_serve_options(OptionSet app, RawServeOptions& raw);
[[nodiscard]] Expected<ServeOptions> finish_options(const RawServeOptions& raw);

}  // namespace rockhopper::apps::dag_node
