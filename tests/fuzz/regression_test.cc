// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Every fuzz target over the captures, over random damage to them, and over the inputs that are
// kept, findings and packets that no capture has: what an ordinary test run can do without
// libFuzzer.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/seed.h"

namespace rockhopper::fuzz {
namespace {

using test::Bytes;

/// Runs the target on an allocation of exactly the input's size, so that ASan sees an overread.
void run(const FuzzTarget& target, const Bytes& input) {
  const auto exact = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), exact.get());
  target.run({exact.get(), input.size()});
}

/// A few bits flipped, a byte replaced, or the end cut off.
void damage(Bytes& input, std::mt19937_64& random) {
  for (std::uint64_t count = 1 + random() % 4; count > 0 && !input.empty(); --count) {
    // Half of the damage goes to the headers, where it matters most.
    const std::size_t range =
        random() % 2 == 0 ? std::min<std::size_t>(input.size(), 80) : input.size();
    std::uint8_t& byte = input[random() % range];
    switch (random() % 4) {
      case 0:
        byte = static_cast<std::uint8_t>(random());
        break;
      case 1:
        input.resize(random() % input.size());
        break;
      default:
        byte ^= static_cast<std::uint8_t>(1u << random() % 8);
    }
  }
}

class FuzzRegression : public testing::TestWithParam<const FuzzTarget*> {};

// GoogleTest asks for the values in main(), when every target has registered itself.
INSTANTIATE_TEST_SUITE_P(Targets, FuzzRegression, testing::ValuesIn(fuzz_targets()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

TEST_P(FuzzRegression, Captures) {
  std::size_t packets = 0;
  for (const auto& file : test::pcap_files(test::captures_directory())) {
    for (const test::RocePacket& packet : test::read_roce_packets(file)) {
      run(*GetParam(), GetParam()->make_input(packet));
      ++packets;
    }
  }
  EXPECT_GT(packets, 0u);
}

TEST_P(FuzzRegression, DamagedCaptures) {
  std::mt19937_64 random(test::seed());
  for (const auto& file : test::pcap_files(test::captures_directory())) {
    for (const test::RocePacket& packet : test::read_roce_packets(file)) {
      for (int round = 0; round < 20; ++round) {
        Bytes input = GetParam()->make_input(packet);
        damage(input, random);
        run(*GetParam(), input);
      }
    }
  }
}

TEST_P(FuzzRegression, KeptInputs) {
  const auto folder = std::filesystem::path(ROCKHOPPER_TEST_DATA) / "fuzz" / GetParam()->name;
  if (!std::filesystem::exists(folder)) return;
  std::mt19937_64 random(test::seed());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    const Bytes input(std::istreambuf_iterator<char>(file), {});
    run(*GetParam(), input);
    for (int round = 0; round < 20; ++round) {
      Bytes damaged = input;
      damage(damaged, random);
      run(*GetParam(), damaged);
    }
  }
}

}  // namespace
}  // namespace rockhopper::fuzz
