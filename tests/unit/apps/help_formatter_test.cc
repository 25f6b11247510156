// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/help_formatter.h"

#include <sstream>

#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

TEST(Wrap, KeepsTheWidthAndAllWords) {
  const std::string text = "one two three four five six seven eight nine ten";
  std::istringstream lines(wrap(text, 4, 20));
  std::string words;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 20u);
    EXPECT_EQ(line.substr(0, 4), "    ");
    words += (words.empty() ? "" : " ") + line.substr(4);
  }
  EXPECT_EQ(words, text);
}

TEST(Wrap, ALongWordStandsAlone) {
  EXPECT_EQ(wrap("a bbbbbbbbbbbbbbbb c", 2, 10), "  a\n  bbbbbbbbbbbbbbbb\n  c\n");
  EXPECT_EQ(wrap("", 2, 10), "");
}

}  // namespace
}  // namespace rockhopper::apps
