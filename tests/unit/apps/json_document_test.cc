// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "apps/common/json.h"

namespace rockhopper::apps {
namespace {

using ::testing::StartsWith;

TEST(JsonDocument, MayHaveComments) {
  const auto document = parse_json("{\"a\": [1, {\"b\": 2}] /* why */} // more");
  ASSERT_TRUE(document);
  EXPECT_EQ(*document, (nlohmann::json{{"a", {1, {{"b", 2}}}}}));
}

TEST(JsonDocument, AMemberThatIsThereTwiceIsNamed) {
  const auto twice = [](const char* text) {
    const auto document = parse_json(text);
    return document ? std::string() : document.error().message;
  };
  EXPECT_THAT(twice(R"({"a": 1, "a": 2})"), StartsWith("a: "));
  EXPECT_THAT(twice(R"({"a": [1, {"b": 0}, {"c": [], "d": {}, "c": 1}]})"), StartsWith("a[2].c: "));
  EXPECT_THAT(twice(R"([[], [{"x": 1}, 2, {"x": {"y": 1, "y": 1}}]])"), StartsWith("[1][2].x.y: "));
  EXPECT_EQ(twice(R"({"a": {"b": 1}, "b": {"a": 1, "b": 2}})"), "");
  EXPECT_EQ(twice(R"([{"a": 1}, {"a": 1}])"), "");
}

TEST(JsonDocument, WhatIsNoneIsAnError) {
  for (const char* text : {"", "{", "{}{}", "nul", "\xff", "1e999"}) {
    const auto document = parse_json(text);
    ASSERT_FALSE(document) << text;
    EXPECT_THAT(document.error().message, StartsWith("no JSON: "));
  }
}

TEST(TextFile, ThatCannotBeReadIsAnError) {
  const auto text = read_text_file("/nonexistent/file");
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, StartsWith("/nonexistent/file cannot be read: "));
}

}  // namespace
}  // namespace rockhopper::apps
