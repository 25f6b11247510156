// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/options.h"

#include <gmock/gmock.h>

#include "apps/rh_subscribe/options.h"
#include "tests/support/options.h"
#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps {
namespace {

using publisher::Start;
using ::testing::HasSubstr;

constexpr std::uint64_t kNow = 1'700'000'000'000'000'000;

Expected<publish::Options> publish_options(const std::vector<std::string>& arguments) {
  return options_of<publish::Options>(publish::add_options, arguments);
}

Expected<subscribe::Options> subscribe_options(std::vector<std::string> arguments) {
  arguments.emplace_back("host");
  return options_of<subscribe::Options>(
      [](const OptionSet& app, subscribe::Options& options) {
        subscribe::add_options(app, options, kNow);
      },
      arguments);
}

TEST(PublishOptions, WithoutAnyThereIsAStoreForStandardInput) {
  const auto options = publish_options({});
  ASSERT_TRUE(options);
  ASSERT_EQ(options->stores.size(), 1u);
  EXPECT_EQ(options->stores[0].name, "default");
  ASSERT_EQ(options->inputs.size(), 1u);
  EXPECT_EQ(options->inputs[0].store, "default");
  EXPECT_EQ(options->inputs[0].where, "-");
}

TEST(PublishOptions, AnInputMayLeaveOutTheOnlyStore) {
  // Also if it stands in front of it.
  const auto one = publish_options({"--input", "udp:5", "--store", "a=64KiB"});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->inputs[0].store, "a");
  const auto two =
      publish_options({"--store", "a=64KiB", "--store", "b=64KiB", "--input", "udp:5"});
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, HasSubstr("a=udp:5"));
}

// PB-32
TEST(StartOption, IsATailANumberOrATime) {
  struct Case {
    const char* text;
    Start::At at;
    std::uint64_t value;
  };
  for (const Case& item : {
           Case{"tail", Start::At::tail, 0},
           Case{"oldest", Start::At::oldest, 0},
           Case{"0", Start::At::sequence, 0},
           Case{"18446744073709551615", Start::At::sequence, UINT64_MAX},
           Case{"@0", Start::At::time, 0},
           Case{"@1700000000.25", Start::At::time, 1'700'000'000'250'000'000},
           Case{"@1700000000.000000001", Start::At::time, 1'700'000'000'000'000'001},
           Case{"2023-11-14T22:13:20", Start::At::time, kNow},
           Case{"2023-11-14T22:13:20Z", Start::At::time, kNow},
           Case{"10s", Start::At::time, kNow - 10'000'000'000},
           Case{"250ms", Start::At::time, kNow - 250'000'000},
       }) {
    const auto start = subscribe::parse_start(item.text, kNow);
    ASSERT_TRUE(start) << item.text;
    EXPECT_EQ(start->at, item.at) << item.text;
    EXPECT_EQ(start->value, item.value) << item.text;
  }
  EXPECT_EQ(subscribe::parse_start("10s", 5)->value, 0u);
  for (const char* text : {"", "head", "-1", "@", "@x", "@1.", "@1.0000000001", "@99999999999999",
                           "2023-11-14", "2023-11-14T22:13:20+1", "10h", "1.5"}) {
    EXPECT_FALSE(subscribe::parse_start(text, kNow)) << text;
  }
}

TEST(SubscribeOptions, ASecretIsTheFirstLineOfItsFile) {
  const publish::TemporaryFolder folder;
  const auto with_secret = [&](const char* content) {
    return subscribe_options({"--name", "ann", "--secret-file", folder.write("key", content)});
  };
  for (const char* content : {"the secret\nmore\n", "the secret\r\n", "the secret"}) {
    const auto options = with_secret(content);
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_EQ(options->secret, "the secret");
  }
  EXPECT_THAT(with_secret("\nthe secret").error().message, HasSubstr("empty"));
  EXPECT_THAT(subscribe_options({"--name", "ann"}).error().message, HasSubstr("--secret-file"));
}

}  // namespace
}  // namespace rockhopper::apps
