// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/option_set.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

using Outcome = OptionParser::Outcome;

class OptionSetTest : public ::testing::Test {
 protected:
  /// What is bad about the arguments; empty: nothing.
  std::string problem(const std::vector<std::string>& arguments) {
    const auto outcome = parser.parse(arguments);
    return outcome ? "" : outcome.error().message;
  }

  OptionParser parser{{.name = "program", .summary = "It tests.", .version = "1", .footer = "end"}};
  OptionSet options = parser.options();
};

TEST_F(OptionSetTest, ValuesAreStored) {
  std::string host;
  std::uint8_t streams = 1;
  std::optional<std::uint16_t> mtu;
  std::optional<std::string> role;
  std::vector<std::string> stores;
  double seconds = 0;
  bool check = true;
  options.add_option("host", host);
  options.add_option("-s,--streams", streams);
  options.add_option("--mtu", mtu);
  options.add_option("--role", role);
  options.add_option("--store", stores).one_value_each();
  options.add_option("--seconds", seconds);
  options.add_flag("--check,!--no-check", check);
  EXPECT_EQ(problem({"-s", "7", "--mtu=1024", "--store", "a", "--store", "b", "there", "--seconds",
                     "0.5", "--no-check"}),
            "");
  EXPECT_EQ(host, "there");
  EXPECT_EQ(streams, 7);
  EXPECT_EQ(mtu, 1024);
  EXPECT_EQ(role, std::nullopt);
  EXPECT_EQ(stores, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(seconds, 0.5);
  EXPECT_FALSE(check);
}

TEST_F(OptionSetTest, ARangeHasItsEnds) {
  unsigned code = 14;
  options.add_option("--code", code).range(1, 31);
  for (const char* good : {"1", "31"}) {
    EXPECT_EQ(problem({"--code", good}), "");
  }
  EXPECT_EQ(code, 31u);
  EXPECT_EQ(problem({"--code", "0"}), "--code: Value 0 not in range 1 to 31");
  EXPECT_NE(problem({"--code", "32"}), "");
  EXPECT_NE(problem({"--code", "-1"}), "");
}

TEST_F(OptionSetTest, NumbersAreThoseOfTheirType) {
  std::uint16_t port = 0;
  std::optional<std::int64_t> offset;
  std::uint64_t count = 0;
  double factor = 0;
  options.add_option("--port", port);
  options.add_option("--offset", offset);
  options.add_option("--count", count);
  options.add_option("--factor", factor);
  EXPECT_EQ(problem({"--port", "010", "--offset", "-9223372036854775808", "--count", "2e6"}), "");
  EXPECT_EQ(port, 10) << "nobody means an octal number";
  EXPECT_EQ(offset, INT64_MIN);
  EXPECT_EQ(count, 2'000'000u);
  EXPECT_EQ(problem({"--count", "18446744073709551615", "--port", "0xffff"}), "");
  EXPECT_EQ(count, UINT64_MAX);
  EXPECT_EQ(port, 0xffff);
  EXPECT_EQ(problem({"--port", "70000"}), "--port: 70000 is not a whole number from 0 to 65535");
  for (const char* bad : {"-1", "1.5", "", "x", "1e", "1e5", "0x10000", "1 "}) {
    EXPECT_NE(problem({"--port", bad}), "") << bad;
  }
  EXPECT_NE(problem({"--offset", "9223372036854775808"}), "");
  EXPECT_NE(problem({"--count", "2e19"}), "");
  for (const char* bad : {"nan", "inf", "1e999", "1,5", ""}) {
    EXPECT_NE(problem({"--factor", bad}), "") << bad;
  }
}

TEST_F(OptionSetTest, PositiveIsAboveZero) {
  double factor = 1;
  options.add_option("--factor", factor).positive();
  EXPECT_EQ(problem({"--factor", "0.001"}), "");
  EXPECT_EQ(problem({"--factor", "0"}), "--factor: 0 is not above 0");
  EXPECT_NE(problem({"--factor", "-1"}), "");
}

TEST_F(OptionSetTest, AValueIsOneOfThoseThereAre) {
  std::string kind = "a";
  int size = 256;
  std::string name;
  options.add_option("--kind", kind).one_of({"a", "b"});
  options.add_option("--size", size).one_of({256, 512});
  const auto take_name = [&](const std::string& value) { name = value; };
  options.add_option_function("--name", take_name, "").one_of({"x", "y"});
  EXPECT_EQ(problem({"--kind", "b", "--size", "512", "--name", "y"}), "");
  EXPECT_EQ(kind + name, "by");
  EXPECT_EQ(size, 512);
  EXPECT_EQ(problem({"--kind", "c"}), "--kind: c not in {a,b}");
  EXPECT_EQ(problem({"--size", "300"}), "--size: 300 not in {256,512}");
  EXPECT_EQ(problem({"--name", "z"}), "--name: z not in {x,y}");
}

TEST_F(OptionSetTest, OptionsDependOnOthers) {
  unsigned targets = 0;
  std::string list;
  std::string work;
  const Option first = options.add_option("--targets", targets);
  options.add_option("--list", list).needs(first);
  options.add_option("--work", work).excludes(first);
  EXPECT_EQ(problem({"--list", "l", "--targets", "2"}), "");
  EXPECT_NE(problem({"--list", "l"}), "");
  EXPECT_NE(problem({"--work", "w", "--targets", "2"}), "");
  options.add_option("host", work).required();
  EXPECT_NE(problem({}), "");
}

enum class Shape : std::uint8_t { round, flat };
constexpr auto names_of(Shape) { return std::array{Names{"round"}, Names{"flat"}}; }

TEST_F(OptionSetTest, AValueIsAnEnumeratorsName) {
  Shape shape = Shape::flat;
  options.add_option("--shape", shape, "of it");
  EXPECT_EQ(problem({"--shape", "round"}), "");
  EXPECT_EQ(shape, Shape::round);
  EXPECT_EQ(problem({"--shape", "oval"}), "--shape: oval not in {round,flat}");
  EXPECT_NE(parser.help().find("of it ({round,flat}; default flat)"), std::string::npos);
}

TEST_F(OptionSetTest, QuantitiesHaveUnitsAndRanges) {
  std::uint64_t bytes = 0;
  std::uint64_t ns = 0;
  std::uint64_t room = 7;
  options.add_bytes("-m,--memory BYTES", bytes, "4KiB", {.least = 4096, .most = 1 << 20}, "");
  options.add_time("--lease TIME", ns, "1s", {.least = 1'000'000, .most = 2'000'000'000}, "");
  options.add_bytes("--room BYTES", room, "", {}, "");
  EXPECT_EQ(problem({}), "");
  EXPECT_EQ(bytes, 4096u);
  EXPECT_EQ(ns, 1'000'000'000u);
  EXPECT_EQ(room, 7u) << "without a default the target stays";
  EXPECT_EQ(problem({"-m", "1MiB", "--lease", "5ms", "--room", "8"}), "");
  EXPECT_EQ(bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(ns, 5'000'000u);
  EXPECT_EQ(room, 8u);
  EXPECT_EQ(problem({"-m", "2MiB"}),
            "--memory 2MiB: expected are bytes, as 64KiB or 4MB, 4096 to 1048576 of them");
  EXPECT_EQ(problem({"-m", "4KiB", "--lease", "1us"}),
            "--lease 1us: expected is a time, as 500ms or 2s, from 0.001 to 2 s");
}

TEST_F(OptionSetTest, ChecksComeOnceAllIsRead) {
  std::vector<std::string> read;
  std::uint32_t size = 1;
  std::uint32_t depth = 1;
  const auto take = [&](const std::string& text) -> Expected<void> {
    read.push_back(text);
    if (text == "bad") return fail(ErrorCode::invalid_argument, "{} is bad", text);
    return {};
  };
  options.add_parsed("--first X", "preset", take, "");
  options.add_parsed_list("--more X", take, "");
  const Option given = options.add_option("--size", size);
  const Option missing = options.add_option("--depth", depth);
  options.add_ignored_option("--ignored", "nothing");
  options.check([&] {
    if (!missing.given()) depth = 2 * size;
    return refuse_if({{size > 50, "too large"}, {size > 40, "large"}});
  });
  EXPECT_EQ(problem({"--size", "21", "--more", "a", "--ignored", "anything", "--more", "b"}), "");
  EXPECT_EQ(read, (std::vector<std::string>{"preset", "a", "b"}));
  EXPECT_TRUE(given.given());
  EXPECT_FALSE(missing.given());
  EXPECT_EQ(depth, 42u);
  EXPECT_EQ(problem({"--size", "60"}), "too large");
  EXPECT_EQ(problem({"--size", "45"}), "large");
  EXPECT_EQ(problem({"--first", "bad", "--size", "60"}), "bad is bad");
}

TEST_F(OptionSetTest, ACommandHasOptionsOfItsOwn) {
  std::string key;
  const OptionSet get = options.add_command("get", "Reads.");
  const OptionSet put = options.add_command("put", "Writes.");
  get.add_option("key", key).required();
  options.require_command();
  EXPECT_NE(problem({}), "");
  EXPECT_NE(problem({"get"}), "");
  EXPECT_EQ(problem({"get", "k"}), "");
  EXPECT_EQ(key, "k");
  EXPECT_TRUE(get.given());
  EXPECT_FALSE(put.given());
  put.check([] { return refuse_if({{true, "never put"}}); });
  EXPECT_EQ(problem({"get", "k"}), "") << "another command's check";
  EXPECT_EQ(problem({"put"}), "never put");
}

TEST_F(OptionSetTest, HelpHasWhatWasSaid) {
  std::string file;
  unsigned code = 14;
  options.group("Output").add_option("--file FILE", file, "where to");
  options.add_option("--code", code, "how long").range(1, 31);
  std::string kind;
  options.add_option("--kind", kind, "what").default_text("all");
  const std::string help = parser.help();
  for (const char* part :
       {"It tests.", "\nOutput\n  --file FILE\n      where to\n",
        "\n  --code N\n      how long ([1 - 31]; default 14)\n", "(default all)", "end"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << "\nis not in\n" << help;
  }
}

TEST_F(OptionSetTest, HelpAndVersionAreShown) {
  for (const char* name : {"--help", "--version"}) {
    ::testing::internal::CaptureStdout();
    const auto outcome = parser.parse({name});
    const std::string shown = ::testing::internal::GetCapturedStdout();
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(*outcome, Outcome::shown);
    EXPECT_EQ(shown, std::string(name) == "--help" ? parser.help() : "1\n");
  }
  const auto outcome = parser.parse({});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(*outcome, Outcome::read);
}

}  // namespace
}  // namespace rockhopper::apps
