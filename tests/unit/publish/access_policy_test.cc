// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/access_policy.h"

#include <array>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "apps/rh_publish/names.h"

namespace rockhopper::apps::publish::access_policy_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::array<std::string, 3> kStores{"prices", "news", "log"};
constexpr const char* kSecret = "sixteen bytes or more";

std::string entry(std::string_view name, std::string_view stores) {
  return fmt::format(R"({{"name": "{}", "secret": "{}", "stores": [{}]}})", name, kSecret, stores);
}

Expected<AccessPolicy> parse(const std::string& json) { return AccessPolicy::parse(json, kStores); }

// PB-9
TEST(AccessPolicy, EachSubscriberMayReadItsStoresAndNoOthers) {
  const auto policy =
      parse(fmt::format(R"({{"subscribers": [{}, {}, {}], "everyone": ["log"]}})",
                        entry("ann", R"("prices")"), entry("ben", R"("*")"), entry("cas", "")));
  ASSERT_TRUE(policy) << policy.error().message;
  const auto readable = [&](std::string_view who) {
    std::string all;
    for (const std::string& store : kStores) {
      if (policy->may_read(who, store)) all += store + " ";
    }
    return all;
  };
  EXPECT_EQ(readable("ann"), "prices log ");
  EXPECT_EQ(readable("ben"), "prices news log ");
  EXPECT_EQ(readable("cas"), "log ");
  EXPECT_EQ(readable(""), "log ");
  EXPECT_EQ(readable("dan"), "log ");
  EXPECT_EQ(policy->secret("ann"), kSecret);
  EXPECT_EQ(policy->secret("dan"), std::nullopt);
  EXPECT_EQ(policy->secret(""), std::nullopt);
  EXPECT_FALSE(policy->is_open());
}

// PB-30
TEST(AccessPolicy, TheDirectoryShowsAllOrWhatMayBeRead) {
  const std::string subscribers = entry("ann", R"("prices")");
  const auto all = parse(fmt::format(R"({{"subscribers": [{}]}})", subscribers));
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->may_see("", "news"));
  EXPECT_FALSE(all->may_read("", "news"));
  EXPECT_TRUE(all->admits_anonymous());
  const auto own =
      parse(fmt::format(R"({{"subscribers": [{}], "directory": "own"}})", subscribers));
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->may_see("ann", "prices"));
  EXPECT_FALSE(own->may_see("ann", "news"));
  EXPECT_FALSE(own->admits_anonymous());
}

TEST(AccessPolicy, WithoutAFileEverybodyMayReadEverything) {
  const AccessPolicy policy = AccessPolicy::open();
  EXPECT_TRUE(policy.is_open());
  EXPECT_TRUE(policy.admits_anonymous());
  for (const char* who : {"", "ann"}) {
    EXPECT_TRUE(policy.may_read(who, "prices"));
    EXPECT_TRUE(policy.may_see(who, "prices"));
  }
}

TEST(AccessPolicy, AnEmptyPolicyLetsNobodyReadAnything) {
  const auto policy = parse("{}");
  ASSERT_TRUE(policy);
  for (const char* who : {"", "ann"}) {
    EXPECT_FALSE(policy->may_read(who, "prices"));
  }
}

TEST(AccessPolicy, EachMistakeIsOneLineThatBeginsWithItsPlace) {
  struct Case {
    std::string json;
    const char* place;
  };
  const std::string long_secret(2000, 'x');
  const std::string ann = entry("ann", "");
  for (const Case& item : {
           Case{"", "no JSON"},
           Case{"[", "no JSON"},
           Case{"[]", "the document: "},
           Case{R"({"subscriber": []})", "subscriber: "},
           Case{R"({"subscribers": {}})", "subscribers: "},
           Case{R"({"subscribers": [1]})", "subscribers[0]: "},
           Case{R"({"subscribers": [{}]})", "subscribers[0].name: "},
           Case{fmt::format(R"({{"subscribers": [{}, {{"name": "ben"}}]}})", ann),
                "subscribers[1].secret: "},
           Case{R"({"subscribers": [{"name": "../x", "secret": "0123456789abcdef"}]})",
                "subscribers[0].name: "},
           Case{R"({"subscribers": [{"name": "ben", "secret": "0123456789abcde"}]})",
                "subscribers[0].secret: "},
           Case{fmt::format(R"({{"subscribers": [{{"name": "b", "secret": "{}"}}]}})", long_secret),
                "subscribers[0].secret: "},
           Case{R"({"subscribers": [{"name": "ben", "secret": 7}]})", "subscribers[0].secret: "},
           Case{fmt::format(R"({{"subscribers": [{}, {}]}})", ann, ann), "subscribers[1].name: "},
           Case{fmt::format(R"({{"subscribers": [{}]}})", entry("ann", R"("news", "nws")")),
                "subscribers[0].stores[1]: "},
           Case{fmt::format(R"({{"subscribers": [{}]}})", entry("ann", "7")),
                "subscribers[0].stores[0]: "},
           Case{R"({"everyone": "news"})", "everyone: "},
           Case{R"({"everyone": ["nws"]})", "everyone[0]: "},
           Case{R"({"directory": "some"})", "directory: "},
           Case{R"({"directory": true})", "directory: "},
           Case{R"({"everyone": [], "everyone": ["news"]})", "everyone: is there twice"},
           Case{R"({"subscribers": [{}, {"name": "a", "name": "b"}]})",
                "subscribers[1].name: is there twice"},
       }) {
    const auto policy = parse(item.json);
    ASSERT_FALSE(policy) << item.json;
    EXPECT_THAT(policy.error().message, StartsWith(item.place));
    EXPECT_THAT(policy.error().message, Not(HasSubstr("\n")));
    EXPECT_THAT(policy.error().message, Not(HasSubstr("0123456789abcde"))) << "tells a secret";
  }
}

TEST(Names, AreFileNamesWithoutSurprises) {
  for (const std::string& name :
       {std::string("a"), std::string("prices-2.EU_x"), std::string(63, 'x'), std::string("_")}) {
    EXPECT_TRUE(check_name(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("-x"),
        std::string(64, 'x'), std::string("a b"), std::string("a\nb"), std::string("\xc3\xa4"),
        std::string("a\0b", 3)}) {
    const auto valid = check_name(name);
    ASSERT_FALSE(valid) << name;
    EXPECT_EQ(valid.error().message.find_first_of("\n\x1b"), std::string::npos);
  }
}

}  // namespace
}  // namespace rockhopper::apps::publish::access_policy_test
