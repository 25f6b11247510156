// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/support/eal_environment.h"

namespace rockhopper::test {
namespace {

constexpr unsigned kMemoryMb = 256;  // untouched memory costs nothing
constexpr unsigned kLcores = 3;

[[maybe_unused]] const auto* const registered =
    ::testing::AddGlobalTestEnvironment(new EalEnvironment);

}  // namespace

void EalEnvironment::SetUp() {
  auto eal = stack::Eal::start(stack::Arguments{}, {.memory_mb = kMemoryMb, .lcores = kLcores});
  ASSERT_TRUE(eal.has_value()) << eal.error().message;
  eal_ = std::move(*eal);
}

void EalEnvironment::TearDown() { eal_.reset(); }

}  // namespace rockhopper::test
