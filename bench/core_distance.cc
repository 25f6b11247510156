// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// How far two processors are from each other:
//   core-distance CPU CPU
// Prints the nanoseconds that a cache line takes from one to the other and back, as JSON. A virtual
// machine's processors may be moved between the cores of its host at any time, and all that two
// processes exchange then takes another time.
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <sched.h>

namespace {

constexpr std::uint32_t kRoundTrips = 100'000;

alignas(128) std::atomic<std::uint32_t> line{0};

bool run_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

void wait_for(std::uint32_t value) {
  while (line.load(std::memory_order_acquire) != value) {
  }
}

double round_trip_ns() {
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < kRoundTrips; ++i) {
    line.store(2 * i + 1, std::memory_order_release);
    wait_for(2 * i + 2);
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
             .count() /
         kRoundTrips;
}

void answer() {
  for (std::uint32_t i = 0; i < kRoundTrips; ++i) {
    wait_for(2 * i + 1);
    line.store(2 * i + 2, std::memory_order_release);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int cpus[2] = {};
  for (int i = 0; i < 2; ++i) {
    const std::string_view text = i + 1 < argc ? argv[i + 1] : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpus[i]);
    if (argc != 3 || error != std::errc{} || end != text.data() + text.size() || cpus[i] < 0 ||
        cpus[i] >= CPU_SETSIZE) {
      fmt::print(stderr, "usage: core-distance CPU CPU\n");
      return 2;
    }
  }
  if (cpus[0] == cpus[1]) {
    fmt::print(stderr, "core-distance: two processors are needed\n");
    return 2;
  }
  bool there = true;
  std::thread other([&] {
    there = run_on(cpus[1]);
    answer();
  });
  const bool here = run_on(cpus[0]);
  const double ns = round_trip_ns();
  other.join();
  if (!here || !there) {
    fmt::print(stderr, "core-distance: processors {} and {} are not both ours\n", cpus[0], cpus[1]);
    return 1;
  }
  fmt::print(R"({{"round_trip_ns": {:.1f}}})"
             "\n",
             ns);
  return 0;
}
