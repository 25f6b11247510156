// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "apps/services/ami/descriptor.h"

namespace rockhopper::sim {

/// What a test of active messages is run over.
struct Case {
  bool dynamic_connections;
  ami::CompletionMode mode;
};

inline std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(info.param.dynamic_connections ? "Dc" : "Rc") +
         (info.param.mode == ami::CompletionMode::mask ? "Mask" : "Counter");
}

}  // namespace rockhopper::sim
