// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/command_line.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "apps/common/transport.h"
#include "apps/rh_ami/run_spec.h"

namespace rockhopper::apps::messages {

[[nodiscard]] std::string_view to_string(ami::CompletionMode mode);

inline constexpr std::uint32_t kSizeMax = 16u << 20;
inline constexpr std::uint32_t kWindowMax = 1u << 15;

struct Options {
  std::string host;  ///< empty: server; then the client decides about the workload
  std::uint16_t port = 18516;
  Transport transport = Transport::rc;

  // Of this end's lane.
  ami::CompletionMode completion = ami::CompletionMode::mask;
  std::uint32_t slots = 1024;
  unsigned threads = 1;  ///< 2: the application's beside the adapter's

  std::vector<Operation> operations;
  std::vector<std::uint32_t> sizes;
  std::uint64_t iterations = 10'000;
  double duration_s = 0;  ///< 0: by iterations
  std::optional<std::uint64_t> warmup;
  std::uint32_t window = 128;  ///< instructions that are not known to be complete
  ami::Level level = ami::Level::remote;
  unsigned callbacks = 100;  ///< percent of the instructions
  bool check = false;
  std::uint32_t eager_bytes = 4096;
  std::optional<std::uint16_t> path_mtu;
  unsigned ack_timeout = 14;

  bool report_gbits = false;
  bool json = false;
  double timeout_s = 10;
  EndpointOptions endpoint;

  [[nodiscard]] Role role() const { return host.empty() ? Role::server : Role::client; }
};

/// The options as OptionParser fills them in, before finish_options() makes sense of them.
struct RawOptions {
  Options options;
  std::string transport = "rc";
  std::string completion = "mask";
  std::string operations = "am_lat";
  std::string level = "remote";
  std::string sizes = "8";
};

void add_options(OptionSet app, RawOptions& raw);
[[nodiscard]] Expected<Options> finish_options(const RawOptions& raw);

/// What the client runs, in order: each operation with each of its sizes.
[[nodiscard]] std::vector<RunSpec> plan(const Options& options);

}  // namespace rockhopper::apps::messages
