// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Many memory regions and queue pairs: the time to look one up, the memory that one takes.
#include <algorithm>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/idle_connection.h"
#include "bench/support.h"
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

/// Arguments: connections, max_dest_rd_atomic.
void idle_connection(benchmark::State& state) {
  double bytes = 0;
  for (auto _ : state) {
    bytes = idle_connection_bytes(static_cast<std::uint32_t>(state.range(0)),
                                  static_cast<std::uint8_t>(state.range(1)));
  }
  state.counters["bytes"] = bytes;
}
BENCHMARK(idle_connection)
    ->ArgNames({"qps", "rd_atomic"})
    ->Args({20'000, 1})
    ->Args({20'000, 16})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rockhopper::bench
