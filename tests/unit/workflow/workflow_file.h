// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/common/json.h"
#include "apps/rh_dag/functions.h"
#include "apps/rh_dag/wfformat.h"

namespace rockhopper::apps::dag_node {

/// A workflow of five tasks: split_1 is followed by count_1, count_2 and, in order only, notify_1;
/// merge_1 reads both counts.
inline nlohmann::json letters() {
  const auto text = read_text_file(ROCKHOPPER_TEST_DATA "/workflows/letters.json");
  EXPECT_TRUE(text) << text.error().message;
  return nlohmann::json::parse(*text);
}

inline Workflow letters_workflow() { return parse_wfformat(letters().dump()).value(); }

inline dag::FunctionRegistry functions() {
  return make_functions(Wait::sleep, [] { return false; }).value();
}

}  // namespace rockhopper::apps::dag_node
