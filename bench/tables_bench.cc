// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Looking up memory keys and queue pairs among many.
#include <algorithm>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/engine_pair.h"
#include "roce/memory.h"

namespace rockhopper::bench {
namespace {

/// Argument: number of regions, which are used in random order.
void memory_access(benchmark::State& state) {
  roce::SeededRandom random(1);
  roce::MemoryTable table(random);
  std::vector<std::byte> memory(64);
  const roce::ProtectionDomain pd{1};
  std::vector<roce::MemoryKey> keys;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    keys.push_back(
        must(table.register_region(pd, memory.data(), memory.size(), roce::kAccessAll, 0)).key);
  }
  std::shuffle(keys.begin(), keys.end(), std::mt19937_64(1));
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.access(keys[next], pd, 0, 8, roce::kAccessRemoteRead));
    if (++next == keys.size()) next = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(memory_access)->ArgName("regions")->Arg(1)->Arg(1000)->Arg(30'000);

}  // namespace
}  // namespace rockhopper::bench
