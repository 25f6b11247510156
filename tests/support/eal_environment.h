// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>

#include <gtest/gtest.h>

#include "stack/eal.h"

namespace rockhopper::test {

/// Runs one EAL for a whole test program: no huge pages, no root, lcores 0 to 2. Linking
/// `eal_test_support` is enough; there is nothing to call.
class EalEnvironment : public ::testing::Environment {
 public:
  void SetUp() override;
  void TearDown() override;

 private:
  std::unique_ptr<stack::Eal> eal_;
};

}  // namespace rockhopper::test
