// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Digest tasks: SHA-256 as published, each part of the input counts, and outputs of any size.
#include "apps/services/dag/graph/digest_task.h"

#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/dag_graph/graph_plan.h"
#include "tests/dag_graph/sequential_evaluator.h"
#include "tests/support/seed.h"

namespace rockhopper::dag::test::digest_task_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

// FIPS 180-4's examples: a context is used again.
TEST(Sha256, IsTheStandards) {
  Sha256 sha256;
  for (int round = 0; round < 2; ++round) {
    sha256.add(bytes("abc"));
    EXPECT_EQ(to_hex(sha256.finish()),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(to_hex(sha256.finish()),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  }
}

// DG-10: everything that a task is given changes its digest.
TEST(DigestTask, EachInputCounts) {
  Sha256 sha256;
  const Bytes first = bytes("first");
  const Bytes second = bytes("second");
  const Bytes both = bytes("firstsecond");
  const TaskInput inputs[] = {{"a", first}, {"b", second}};
  const TaskInput swapped[] = {{"a", second}, {"b", first}};
  const TaskInput joined[] = {{"a", both}};
  const TaskCall calls[] = {{"key", {}, {}, inputs},    {"kez", {}, {}, inputs},
                            {"key", {}, first, inputs}, {"key", {}, {}, swapped},
                            {"key", {}, {}, joined},    {"key", {}, {}, {}}};
  std::vector<Digest> digests;
  for (const TaskCall& call : calls) {
    digests.push_back(digest_of(sha256, call, 1));
  }
  digests.push_back(digest_of(sha256, calls[0], 2));
  for (std::size_t i = 0; i < digests.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      EXPECT_NE(digests[i], digests[k]) << i << " and " << k;
    }
  }
  EXPECT_EQ(digest_of(sha256, calls[0], 1), digests[0]);
}

// DG-10: outputs of any size, the same as those that the judge makes by another way.
TEST(DigestTask, OutputsAreWhatTheJudgeExpects) {
  const FunctionRegistry registry = digest_registry();
  const auto& function = registry.find(kDigestFunction)->function;
  GraphPlan plan{.seed = rockhopper::test::seed(), .nodes = {}};
  for (const std::uint64_t size : {0u, 1u, 31u, 32u, 33u, 48u, 49u, 1000u, 100'000u}) {
    plan.nodes["key"] = {.output_bytes = {size}, .predecessors = {}};
    Bytes output;
    const auto arguments = DigestArguments{.seed = plan.seed, .output_bytes = size}.emit();
    ASSERT_TRUE(function({"key", arguments, {}, {}}, output));
    EXPECT_EQ(output.size(), std::max<std::uint64_t>(size, 32));
    EXPECT_EQ(output, bytes(evaluate_node(plan, "key"))) << size;
  }
}

TEST(DigestTask, RefusesWrongArguments) {
  FunctionRegistry registry;
  ASSERT_TRUE(add_digest_function(registry, 100));
  const auto& function = registry.find(kDigestFunction)->function;
  Bytes output;
  EXPECT_EQ(function({"key", bytes("short"), {}, {}}, output).error().message,
            "the digest function takes 16 bytes, not 5");
  EXPECT_TRUE(function({"key", DigestArguments{.output_bytes = 100}.emit(), {}, {}}, output));
  EXPECT_EQ(function({"key", DigestArguments{.output_bytes = 101}.emit(), {}, {}}, output)
                .error()
                .message,
            "an output of 101 bytes is asked for; the limit is 100");
}

}  // namespace
}  // namespace rockhopper::dag::test::digest_task_test
