// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/input.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "apps/rh_publish/byte_input.h"
#include "tests/unit/publish/capture_file.h"
#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::publish {
namespace {

using ::testing::HasSubstr;

/// Messages that an input gives to somebody who asks every `step_ns`, until it ends.
std::vector<std::uint64_t> times(Input& input, std::uint64_t step_ns) {
  std::vector<std::uint64_t> times;
  for (std::uint64_t now_ns = 0;; now_ns += step_ns) {
    std::span<const std::byte> payload;
    const auto next = input.next(now_ns, payload);
    EXPECT_TRUE(next) << next.error().message;
    if (!next || *next == Next::end) return times;
    if (*next == Next::message) times.push_back(now_ns);
  }
}

TEST(InputSpec, SaysWhatComesFromWhere) {
  struct Case {
    const char* text;
    const char* store;
    InputKind kind;
    const char* where;
  };
  for (const Case& item : {
           Case{"lines", "", InputKind::lines, "-"},
           Case{"records", "", InputKind::records, "-"},
           Case{"lines:a", "", InputKind::lines, "a"},
           Case{"news=records:/a/b=c:d", "news", InputKind::records, "/a/b=c:d"},
           Case{"lines:a=b", "", InputKind::lines, "a=b"},
           Case{"a=udp:[::1]:7", "a", InputKind::udp, "[::1]:7"},
           Case{"pcap:x", "", InputKind::pcap, "x"},
       }) {
    const auto spec = parse_input(item.text);
    ASSERT_TRUE(spec) << item.text;
    EXPECT_EQ(spec->store, item.store);
    EXPECT_EQ(spec->kind, item.kind);
    EXPECT_EQ(spec->where, item.where);
    const auto again = parse_input(to_string(*spec));
    ASSERT_TRUE(again);
    EXPECT_EQ(to_string(*again), to_string(*spec));
  }
}

TEST(InputSpec, WhatIsNoneIsRefusedInALineThatQuotesIt) {
  for (const char* text :
       {"", "words", "lines:", "udp", "udp:", "pcap", "=lines", "a=", "a=b=lines", "LINES"}) {
    const auto spec = parse_input(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error().message, HasSubstr(std::string("--input ") + text));
  }
}

TEST(Input, EndsWithTheNumberThatIsWanted) {
  const TemporaryFolder folder;
  const std::string path = folder.write("in", "1\n2\n3\n");
  for (const std::uint64_t count : {1u, 2u, 3u, 4u, 0u}) {
    auto input = Input::open({.where = path}, {.count = count}, 100);
    ASSERT_TRUE(input);
    const std::size_t expected = count == 0 ? 3 : std::min<std::uint64_t>(count, 3);
    EXPECT_EQ(times(**input, 1).size(), expected);
    EXPECT_EQ((*input)->messages(), expected);
    EXPECT_TRUE((*input)->ended());
  }
}

TEST(Input, ARateIsForEverySource) {
  const TemporaryFolder folder;
  const std::string lines = folder.write("in", "1\n2\n3\n");
  // Its own pauses are hours.
  constexpr std::uint64_t kHourNs = 3'600'000'000'000;
  write_capture(folder.path("c"), {{kHourNs, "a"}, {2 * kHourNs, "b"}, {3 * kHourNs, "c"}});
  for (const InputSpec& spec :
       {InputSpec{.where = lines}, InputSpec{.kind = InputKind::pcap, .where = folder.path("c")}}) {
    auto input = Input::open(spec, {.rate_per_s = 100}, 100);
    ASSERT_TRUE(input);
    EXPECT_EQ(times(**input, 1'000'000), (std::vector<std::uint64_t>{0, 10'000'000, 20'000'000}));
  }
}

TEST(Input, ASourceThatHadNothingIsNotAskedAllTheTime) {
  const TemporaryFolder folder;
  auto input = Input::open({.where = folder.write("in", "")}, {.follow = true}, 100);
  ASSERT_TRUE(input);
  std::span<const std::byte> payload;
  EXPECT_EQ((*input)->next(0, payload).value(), Next::nothing);
  folder.append("in", "x\n");
  EXPECT_EQ((*input)->next(Input::kPauseNs - 1, payload).value(), Next::nothing);
  EXPECT_EQ((*input)->next(ByteInput::kFollowNs, payload).value(), Next::message);
}

TEST(Input, WhatCannotBeOpenedIsAnError) {
  const TemporaryFolder folder;
  const InputSpec spec{.kind = InputKind::records, .where = folder.path("none")};
  EXPECT_THAT(Input::open(spec, {}, 100).error().message, HasSubstr(folder.path("none")));
}

}  // namespace
}  // namespace rockhopper::apps::publish
