// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Micro benchmarks: what one packet, one operation, one timer costs on one core, without a link.
#include <cstdio>
#include <exception>

#include <benchmark/benchmark.h>

#include "stack/eal.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  auto eal = rockhopper::stack::Eal::start({}, {.memory_mb = 512});
  if (!eal) {
    std::fprintf(stderr, "micro-bench: %s\n", eal.error().message.c_str());
    return 1;
  }
  try {
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "micro-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
