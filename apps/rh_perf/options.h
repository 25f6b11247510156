// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/initiator_options.h"
#include "apps/common/measuring_options.h"
#include "apps/common/option_set.h"
#include "apps/rh_perf/agreement.h"
#include "apps/rh_perf/operation.h"
#include "roce/congestion/congestion_control.h"
#include "roce/recovery/recovery_config.h"
#include "stack/time_units.h"

namespace rockhopper::apps::perf {

enum class BackendKind : std::uint8_t { rockhopper, verbs };
constexpr auto names_of(BackendKind) { return std::array{Names{"rockhopper"}, Names{"verbs"}}; }

/// Which program the other end is.
enum class PeerKind : std::uint8_t { rh_perf, perftest };
constexpr auto names_of(PeerKind) { return std::array{Names{"rh-perf"}, Names{"perftest"}}; }

inline constexpr auto kSwiftTargetUs =
    static_cast<std::uint32_t>(roce::SwiftParameters{}.base_target_delay_ns / kNsPerUs);

struct Options : MeasuringOptions {
  BackendKind backend = BackendKind::rockhopper;
  PeerKind peer = PeerKind::rh_perf;
  InitiatorOptions initiator;  ///< DC
  LockMode lock_mode = LockMode::none;
  bool ignored = false;  ///< perftest's options that have no meaning here
  bool rdma_cm = false;  ///< perftest: connect and exchange through the connection manager
  std::optional<unsigned> gid_index;
  std::string report;  ///< a page that rh-report makes; empty: none

  std::vector<Operation> operations{Operation::send};
  RunKind kind = RunKind::bandwidth;
  bool all_sizes = false;
  std::uint32_t receive_depth = 512;
  std::uint16_t qps = 1;
  std::uint32_t cq_moderation = 32;
  std::uint16_t outstanding_reads = 16;
  std::uint32_t inline_bytes = 0;
  unsigned service_level = 0;
  roce::CongestionAlgorithm congestion = roce::CongestionAlgorithm::none;
  std::uint32_t swift_target_us = kSwiftTargetUs;
  roce::RecoveryAlgorithm recovery = roce::RecoveryAlgorithm::go_back_n;
  bool adaptive_timeout = false;
  bool bidirectional = false;
  bool validate = true;

  Options() { port = 18515; }
};

/// Adds them, and what makes sense of them once they are read.
void add_options(const OptionSet& app, Options& options);

/// What the client runs, in order: each operation with each of its sizes.
[[nodiscard]] std::vector<RunSpec> plan(const Options& options);

}  // namespace rockhopper::apps::perf
