// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/command_line.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/initiator_options.h"
#include "apps/common/option_set.h"
#include "apps/rh_perf/agreement.h"
#include "apps/rh_perf/operation.h"
#include "roce/congestion/congestion_control.h"
#include "roce/recovery/recovery_config.h"

namespace rockhopper::apps::perf {

enum class BackendKind { rockhopper, verbs };
/// Which program the other end is.
enum class PeerKind { rh_perf, perftest };

struct Options {
  std::string host;  ///< empty: server; then the client decides about the workload
  std::uint16_t port = 18515;
  BackendKind backend = BackendKind::rockhopper;
  PeerKind peer = PeerKind::rh_perf;
  Transport transport = Transport::rc;
  InitiatorOptions initiator;  ///< DC
  LockMode lock_mode = LockMode::none;
  bool rdma_cm = false;  ///< perftest: connect and exchange through the connection manager
  std::string device;    ///< of the verbs backend
  std::optional<unsigned> gid_index;

  std::vector<Operation> operations;
  RunKind kind = RunKind::bandwidth;
  std::vector<std::uint32_t> sizes;  ///< empty: perftest's default
  std::uint64_t iterations = 0;      ///< 0: perftest's default
  double duration_s = 0;             ///< 0: by iterations
  std::optional<std::uint64_t> warmup;
  std::uint32_t window = 128;
  std::uint32_t receive_depth = 512;
  std::uint16_t qps = 1;
  std::uint32_t cq_moderation = 32;
  std::uint16_t outstanding_reads = 16;
  std::uint32_t inline_bytes = 0;
  std::optional<std::uint16_t> path_mtu;
  unsigned ack_timeout = 14;
  unsigned service_level = 0;
  roce::CongestionAlgorithm congestion = roce::CongestionAlgorithm::none;
  roce::RecoveryAlgorithm recovery = roce::RecoveryAlgorithm::go_back_n;
  bool adaptive_timeout = false;
  bool bidirectional = false;
  bool validate = true;
  bool report_gbits = false;
  bool json = false;
  double timeout_s = 10;
  EndpointOptions endpoint;

  [[nodiscard]] Role role() const { return host.empty() ? Role::server : Role::client; }
};

/// The options as OptionParser fills them in, before finish_options() makes sense of them.
struct RawOptions {
  Options options;
  std::string backend = "rockhopper";
  std::string peer = "rh-perf";
  std::string transport = "rc";
  std::string operations = "send";
  std::string mode = "bw";
  std::string lock_mode;                ///< empty: the default
  std::optional<std::uint32_t> window;  ///< none: the operation's default
  std::string congestion = "none";
  std::string recovery = "go-back-n";
  std::string sizes;
  bool all_sizes = false;
};

void add_options(OptionSet app, RawOptions& raw);
[[nodiscard]] Expected<Options> finish_options(const RawOptions& raw);

/// What the client runs, in order: each operation with each of its sizes.
[[nodiscard]] std::vector<RunSpec> plan(const Options& options);

}  // namespace rockhopper::apps::perf
