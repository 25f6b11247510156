// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Graphs as bytes, as docs/dag-graphs.md has them; of other bytes none is taken for a graph.
#include "apps/services/dag/graph/graph_image.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tests/unit/dag_graph/graph_builders.h"

namespace rockhopper::dag::test::graph_image_test {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, std::uint64_t number, int length) {
  for (int i = 0; i < length; ++i) {
    // Longer than the number: zeroes follow.
    bytes.push_back(i < 8 ? static_cast<std::byte>(number >> (8 * i) & 255) : std::byte{0});
  }
}

void append(Bytes& bytes, std::string_view text) {
  for (const char c : text) {
    bytes.push_back(static_cast<std::byte>(c));
  }
}

/// 'ab' and 'c', which runs /x 2 ns after 'ab' has ended, where there is label 9.
struct SmallImage {
  std::uint64_t bytes = 48 + 2 * 24 + 2 * 16 + 8 + 12 + 3 + 16 + 3;
  std::uint32_t kind = 2;
  std::uint32_t to = 1;
  std::uint32_t constraints = kOrderOnly | kAffinity | kNotBefore;
  std::uint64_t parameters = 12;
  std::uint64_t strings = 22;
  std::uint32_t zero = 0;

  [[nodiscard]] Bytes emit() const {
    Bytes out;
    append(out, "RHDG");
    append(out, 1, 2);
    append(out, zero, 2);
    append(out, bytes, 8);
    append(out, 2, 4);  // nodes
    append(out, 2, 4);  // tasks
    append(out, 1, 4);  // edges
    append(out, 0, 4);
    append(out, parameters, 8);
    append(out, strings, 8);
    append(out, 5, 8);  // work
    append(out, static_cast<std::uint32_t>(-3), 4);
    append(out, 1, 4);
    append(out, 1, 4);
    append(out, 2, 4);
    append(out, 0, 8);
    append(out, 0, 4);
    append(out, 0, 4);
    append(out, 1, 4);
    append(out, 1, 4);
    append(out, 1, 4);  // a function, digest version 1
    append(out, 1, 4);
    append(out, 1, 4);
    append(out, 16, 4);
    append(out, kind, 4);
    append(out, 0, 8);
    append(out, 3, 4);
    append(out, to, 4);
    append(out, constraints, 4);
    append(out, 9, 4);
    append(out, 2, 8);
    append(out, "abc");
    append(out, 7, 16);
    append(out, std::string_view("/x", 3));
    return out;
  }
};

Expected<Graph> parse(const Bytes& bytes, const GraphLimits& limits = {}) {
  return parse_image(bytes, digest_registry(), limits);
}

std::string refusal(const Bytes& bytes, const GraphLimits& limits = {}) {
  const auto graph = parse(bytes, limits);
  return graph ? "" : graph.error().message;
}

// DG-1, DG-2, DG-3: byte for byte as documented.
TEST(GraphImage, IsAsTheDocumentHasIt) {
  const Bytes image = SmallImage{}.emit();
  const auto graph = parse(image);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(to_image(*graph), image);
  EXPECT_EQ(graph->key(0), "ab");
  EXPECT_EQ(graph->key(1), "c");
  EXPECT_EQ(graph->priority(0), -3);
  EXPECT_EQ(graph->work_ns(0), 5u);
  EXPECT_EQ(DigestArguments::parse(graph->task(0, 0).arguments)->seed, 7u);
  EXPECT_EQ(parse_command(graph->task(1, 0).arguments)->front(), "/x");
  const EdgeConstraints& constraints = graph->edges_of(0)[0].constraints;
  EXPECT_EQ(constraints.affinity, 9u);
  EXPECT_EQ(constraints.not_before_ns, 2u);
}

// DG-1: a large graph with all kinds of edges, there and back.
TEST(GraphImage, OfARandomGraphGivesTheSameGraph) {
  const GraphPlan plan = random_plan({.seed = rockhopper::test::seed(), .nodes = 10'000});
  const auto graph = build(plan, digest_registry());
  ASSERT_TRUE(graph);
  const Bytes image = to_image(*graph);
  const auto again = parse(image);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_image(*again), image);
  EXPECT_EQ(again->size(), graph->size());
  EXPECT_EQ(again->parts().edges, graph->parts().edges);
  EXPECT_LE(image.size(), image_bytes_max({.nodes = graph->size(),
                                           .edges = graph->edges(),
                                           .tasks = graph->tasks(),
                                           .strings_bytes = graph->parts().strings.size()}));
}

// DG-33: nothing an image says is believed.
TEST(GraphImage, RefusesWhatContradictsItself) {
  const auto with = [](auto change) {
    SmallImage image;
    change(image);
    return refusal(image.emit());
  };
  EXPECT_EQ(with([](SmallImage&) {}), "");
  EXPECT_THAT(with([](SmallImage& i) { i.zero = 1; }), HasSubstr("is not zero where it must be"));
  EXPECT_THAT(with([](SmallImage& i) { ++i.bytes; }),
              HasSubstr("says 171 bytes, and there are 170"));
  EXPECT_THAT(with([](SmallImage& i) { ++i.strings; }), HasSubstr("sections"));
  EXPECT_THAT(with([](SmallImage& i) { i.strings = UINT64_MAX; }), HasSubstr("sections"));
  EXPECT_THAT(with([](SmallImage& i) { i.parameters = UINT64_MAX - 100; }), HasSubstr("sections"));
  EXPECT_THAT(with([](SmallImage& i) {
                i.parameters -= 4;
                i.strings += 4;
              }),
              HasSubstr("fewer parameters"));
  EXPECT_THAT(with([](SmallImage& i) {
                i.parameters += 4;
                i.strings -= 4;
              }),
              HasSubstr("more parameters"));
  EXPECT_THAT(with([](SmallImage& i) { i.constraints = kData | kAffinity; }),
              HasSubstr("more parameters"));
  EXPECT_THAT(with([](SmallImage& i) { i.constraints = 0x100; }), HasSubstr("constraints 0x100"));
  EXPECT_THAT(with([](SmallImage& i) { i.constraints |= kData; }), HasSubstr("the order only"));
  EXPECT_THAT(with([](SmallImage& i) { i.kind = 0; }), HasSubstr("a task of kind 0"));
  EXPECT_THAT(with([](SmallImage& i) { i.kind = 1; }), HasSubstr("function 0 is not known"));
  EXPECT_THAT(with([](SmallImage& i) { i.to = 2; }), HasSubstr("only 2 nodes"));
  EXPECT_THAT(with([](SmallImage& i) { i.to = UINT32_MAX; }), HasSubstr("only 2 nodes"));
  EXPECT_THAT(with([](SmallImage& i) { i.to = 0; }), HasSubstr("cycle: 'ab' -> 'ab'"));
}

TEST(GraphImage, RefusesOtherBytes) {
  const Bytes image = SmallImage{}.emit();
  for (std::size_t length = 0; length < image.size(); ++length) {
    EXPECT_NE(refusal(Bytes(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(length))),
              "");
  }
  Bytes longer = image;
  longer.push_back(std::byte{0});
  EXPECT_NE(refusal(longer), "");
  Bytes other = image;
  other[0] = std::byte{'r'};
  EXPECT_EQ(refusal(other), "this is no graph's image");
  other = image;
  other[4] = std::byte{2};
  EXPECT_EQ(refusal(other), "the graph's image has version 2, known is 1");
}

// Limits count before memory is taken for what an image claims to have.
TEST(GraphImage, KeepsItsLimits) {
  const Bytes image = SmallImage{}.emit();
  EXPECT_EQ(refusal(image, {.nodes = 2, .edges = 1, .tasks = 2}), "");
  EXPECT_THAT(refusal(image, {.nodes = 1}), HasSubstr("the limits are 1"));
  EXPECT_THAT(refusal(image, {.edges = 0}), HasSubstr("the limits are"));
  EXPECT_THAT(refusal(image, {.tasks = 1}), HasSubstr("the limits are"));
  EXPECT_THAT(refusal(image, {.key_bytes = 1}), HasSubstr("its key has 2 bytes"));
  EXPECT_THAT(refusal(image, {.arguments_bytes = 15}), HasSubstr("the limit is 15"));
}

// Whatever one byte of an image is changed to: it is refused, or it is the image of what is read.
TEST(GraphImage, AnyChangedByteIsRefusedOrCounts) {
  std::mt19937_64 random(rockhopper::test::seed());
  const auto graph = build(random_plan({.seed = random(), .nodes = 20}), digest_registry());
  ASSERT_TRUE(graph);
  const Bytes image = to_image(*graph);
  for (std::size_t at = 0; at < image.size(); ++at) {
    Bytes changed = image;
    changed[at] ^= static_cast<std::byte>(1 + random() % 255);
    const auto parsed = parse(changed);
    if (!parsed) continue;
    EXPECT_EQ(to_image(*parsed), changed) << "byte " << at;
  }
}

}  // namespace
}  // namespace rockhopper::dag::test::graph_image_test
