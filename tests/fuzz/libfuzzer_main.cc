// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The entry point of libFuzzer, for an executable that holds one target.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto& targets = rockhopper::fuzz::fuzz_targets();
  rockhopper::fuzz::check(targets.size() == 1);
  targets.front()->run({data, size});
  return 0;
}
