// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/personality_file.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  const auto parsed = parse_personality(text);
  return parsed ? "" : parsed.error().message;
}

TEST(PersonalityFiles, AllThatComeAlongAreGoodAndSaySources) {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : personalities()) {
    const auto file = read_personality(text);
    ASSERT_TRUE(file) << name << ": " << file.error().message;
    EXPECT_EQ(file->name, name);
    EXPECT_FALSE(file->device.empty());
    EXPECT_FALSE(file->entries.empty());
    for (const auto& entry : file->entries) {
      EXPECT_GE(entry.source.size(), 10u) << name << " " << entry.knob;
    }
    names.push_back(name);
  }
  EXPECT_THAT(names, ElementsAre("e810", "ernic", "ionic", "mlx5-cx4lx", "mlx5-cx5", "mlx5-cx6dx",
                                 "mlx5-cx7-sr"));
}

TEST(PersonalityFiles, KnobsBehindANameChangeIt) {
  const auto plain = parse_personality("e810");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->static_credits, 2);
  EXPECT_FALSE(plain->serves_atomics);
  const auto changed = parse_personality("e810,credits=count,nak_delay=1ms");
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_FALSE(changed->static_credits);
  EXPECT_EQ(changed->nak_delay_ns, 1'000'000u);
  EXPECT_FALSE(changed->serves_atomics);
  const auto alone = parse_personality("mig_req=no");
  ASSERT_TRUE(alone);
  EXPECT_FALSE(alone->mig_req);
}

TEST(PersonalityFiles, WhatIsWrongIsSaid) {
  EXPECT_THAT(refusal("cx9"), HasSubstr("mlx5-cx5"));
  EXPECT_THAT(refusal(""), HasSubstr("mlx5-cx5"));
  EXPECT_THAT(refusal("/nonexistent/a.json"), HasSubstr("/nonexistent/a.json"));
  EXPECT_THAT(refusal("e810,ionic"), HasSubstr("ionic"));
  EXPECT_THAT(refusal("e810,colour=red"), HasSubstr("colour"));
  const auto wrong = [](std::string_view text) {
    const auto file = read_personality(text);
    return file ? std::string() : file.error().message;
  };
  EXPECT_THAT(wrong("[]"), HasSubstr("object"));
  EXPECT_THAT(wrong(R"({"name": "x"})"), HasSubstr("knobs"));
  EXPECT_THAT(wrong(R"({"name": "x", "knobs": {"nak_delay": {"value": "1ms"}}})"),
              HasSubstr("source"));
  EXPECT_THAT(wrong(R"({"name": "x", "knobs": {"nak_delay": {"value": "1ms", "source": ""}}})"),
              HasSubstr("to be measured"));
  EXPECT_THAT(wrong(R"({"name": "x", "knobs": {"nak_delay": {"value": "1", "source": "me"}}})"),
              HasSubstr("nak_delay"));
  EXPECT_THAT(wrong(R"({"name": "x", "knobs": {"colour": {"value": "1", "source": "me"}}})"),
              HasSubstr("colour"));
}

}  // namespace
}  // namespace rockhopper::apps
