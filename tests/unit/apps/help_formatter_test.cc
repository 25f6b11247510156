// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/help_formatter.h"

#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/common/initiator_options.h"
#include "apps/common/option_set.h"

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

// Manual pages are made of it.
TEST(HelpFormatter, ShowsWhatAUserTypes) {
  OptionParser parser({.name = "program", .summary = "text", .version = "1", .footer = ""});
  const OptionSet app = parser.options();
  bool checked = true;
  app.add_flag("--check,!--no-check", checked, "look at it");
  std::vector<std::string> faults;
  app.add_option("--faults", faults, "impair it").type_name("[PORT:]SPEC").one_value_each();
  InitiatorOptions initiator;
  add_initiator_options(app, initiator);
  const std::string help = parser.help();
  EXPECT_NE(help.find("\n  --check, --no-check\n      look at it"), std::string::npos) << help;
  EXPECT_NE(help.find("\n  --faults [PORT:]SPEC\n      impair it\n"), std::string::npos) << help;
  EXPECT_NE(help.find("default 1)"), std::string::npos) << help;
  EXPECT_EQ(help.find('\1'), std::string::npos);
}

}  // namespace
}  // namespace rockhopper::apps
