// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include "apps/common/measuring_options.h"
#include "apps/common/option_set.h"
#include "apps/rh_ami/run_spec.h"

namespace rockhopper::apps::messages {

inline constexpr std::uint32_t kSizeMax = 16u << 20;
inline constexpr std::uint32_t kWindowMax = 1u << 15;

/// The window counts instructions that are not known to be complete.
struct Options : MeasuringOptions {
  // Of this end's lane.
  ami::CompletionMode completion = ami::CompletionMode::mask;
  std::uint32_t slots = 1024;
  unsigned threads = 1;  ///< 2: the application's beside the adapter's

  std::vector<Operation> operations;
  ami::Level level = ami::Level::remote;
  unsigned callbacks = 100;  ///< percent of the instructions
  bool check = false;
  std::uint32_t eager_bytes = 4096;

  Options() {
    port = 18516;
    iterations = 10'000;
  }
};

/// Adds them, and what checks them once they are read.
void add_options(const OptionSet& app, Options& options);

/// What the client runs, in order: each operation with each of its sizes.
[[nodiscard]] std::vector<RunSpec> plan(const Options& options);

}  // namespace rockhopper::apps::messages
