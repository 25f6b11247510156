// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/capture.h"

namespace rockhopper::fuzz {

/// One thing to fuzz. Each <name>_fuzz.cc defines one as a namespace-scope constant, which
/// registers it; the same code then serves libFuzzer and the regression test over the captures.
class FuzzTarget {
 public:
  using Run = void (*)(std::span<const std::uint8_t> input);
  using MakeInput = test::Bytes (*)(const test::RocePacket& packet);

  /// `name`: of the target and of its folder of kept inputs, tests/data/fuzz/<name>.
  /// `run`: takes any bytes; aborts (see check()) on a finding.
  /// `make_input`: an input that makes `run` work on a captured packet.
  FuzzTarget(const char* name, Run run, MakeInput make_input);
  FuzzTarget(const FuzzTarget&) = delete;
  FuzzTarget& operator=(const FuzzTarget&) = delete;

  const char* const name;
  const Run run;
  const MakeInput make_input;
};

/// All targets of this executable.
[[nodiscard]] const std::vector<const FuzzTarget*>& fuzz_targets();

/// Aborts with the place of the call unless `condition` holds.
void check(bool condition, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace rockhopper::fuzz
