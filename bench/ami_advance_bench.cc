// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What an application pays for looking after its instructions (AM-25): advance() with nothing to
// do, and with one bit set. No adapter, no link.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "apps/services/ami/context.h"

namespace rockhopper::bench {
namespace {

using ami::CompletionMode;
using ami::InjectionFifo;

constexpr std::uint32_t kFifos = 64;

CompletionMode mode_of(const benchmark::State& state) {
  return state.range(0) == 0 ? CompletionMode::mask : CompletionMode::counter;
}

void count(void* calls, std::uint64_t, ami::Status) { ++*static_cast<std::uint64_t*>(calls); }

/// One thread's look at 64 FIFOs, each with a callback that waits; one iteration is all of them.
/// The requirement is 50 ns.
void idle_fifos(benchmark::State& state) {
  std::uint64_t calls = 0;
  std::vector<std::unique_ptr<InjectionFifo<>>> fifos;
  for (std::uint32_t i = 0; i < kFifos; ++i) {
    fifos.push_back(std::make_unique<InjectionFifo<>>(
        ami::FifoConfig{.completion = mode_of(state), .slots = 1024}));
    if (!fifos.back()->inject({}, {}, {.function = &count, .context = &calls})) std::abort();
  }
  for (auto _ : state) {
    for (const auto& fifo : fifos) {
      benchmark::DoNotOptimize(fifo->advance());
    }
  }
  if (calls > 0) state.SkipWithError("it was not idle");
}
BENCHMARK(idle_fifos)->Name("ami/idle_64_fifos")->ArgName("counter")->Arg(0)->Arg(1);

/// The same with the context around each, which looks for messages, too.
void idle_contexts(benchmark::State& state) {
  std::vector<std::unique_ptr<ami::Lane>> lanes;
  std::vector<std::unique_ptr<ami::Context>> contexts;
  for (std::uint32_t i = 0; i < kFifos; ++i) {
    lanes.push_back(std::make_unique<ami::Lane>(
        ami::LaneConfig{.fifo = {.completion = mode_of(state)}, .receive_buffers = 16}));
    contexts.push_back(std::make_unique<ami::Context>(*lanes.back(), 0));
  }
  for (auto _ : state) {
    for (const auto& context : contexts) {
      benchmark::DoNotOptimize(context->advance());
    }
  }
}
BENCHMARK(idle_contexts)->Name("ami/idle_64_contexts")->ArgName("counter")->Arg(0)->Arg(1);

/// One instruction with a callback goes all the way through a FIFO of so many slots, which moves
/// on by two each time. The requirement for advance() alone at 65,536 slots is 200 ns.
void one_bit(benchmark::State& state) {
  std::uint64_t calls = 0;
  InjectionFifo<> fifo({.slots = static_cast<std::uint32_t>(state.range(0))});
  std::uint64_t rounds = 0;
  for (auto _ : state) {
    if (!fifo.inject({}, {}, {.function = &count, .context = &calls})) std::abort();
    (void)fifo.front();
    fifo.pop();
    (void)fifo.front();
    const std::uint64_t place = fifo.front_place();
    fifo.pop();
    fifo.complete(place, ami::Status::ok);
    benchmark::DoNotOptimize(fifo.advance());
    ++rounds;
  }
  if (calls != rounds) state.SkipWithError("a callback was not called");
}
BENCHMARK(one_bit)->Name("ami/one_bit_of")->Arg(1024)->Arg(65'536);

/// The mask alone: a bit is set in one of so many, and found.
void mask_bit(benchmark::State& state) {
  const auto slots = static_cast<std::uint32_t>(state.range(0));
  ami::CompletionMask<> mask(slots);
  std::uint32_t slot = 0;
  std::uint64_t found = 0;
  for (auto _ : state) {
    slot = (slot * 5 + 12'347) & (slots - 1);
    mask.set(slot);
    mask.take([&](std::uint32_t which) { found += which; });
  }
  benchmark::DoNotOptimize(found);
}
BENCHMARK(mask_bit)->Name("ami/mask_bit_of")->Arg(64)->Arg(1024)->Arg(65'536)->Arg(1 << 18);

}  // namespace
}  // namespace rockhopper::bench
