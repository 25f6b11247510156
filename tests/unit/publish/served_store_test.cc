// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/served_store.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/seed.h"
#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::publish {
namespace {

using publisher::StoreKind;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class ServedStoreTest : public ::testing::Test {
 protected:
  Expected<std::unique_ptr<ServedStore>> open(const StoreSpec& spec) {
    return ServedStore::open(spec, 1, KeyRule{}, random_);
  }
  [[nodiscard]] StoreSpec in_file(std::uint64_t bytes = 65'536) const {
    return {.name = "news", .bytes = bytes, .file = folder_.path("store")};
  }

  const TemporaryFolder folder_;
  roce::SeededRandom random_{test::seed()};
};

// PB-31
TEST_F(ServedStoreTest, ALogTakesAQuarterOfItsRing) {
  auto store = open({.name = "news", .bytes = 65'536});
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->any().kind(), StoreKind::log);
  EXPECT_EQ((*store)->any().message_max(), 65'536u / 4);
  (*store)->publish(bytes_of("one"), 1);
  (*store)->publish(bytes_of("two"), 2);
  (*store)->commit();
  const auto report = (*store)->report();
  EXPECT_EQ(report["messages"], 2);
  EXPECT_EQ(report["bytes"], 6);
  EXPECT_EQ(report["next"], 2);
}

// PB-27
TEST_F(ServedStoreTest, AFileGoesOnWhereItWasLeft) {
  std::uint64_t epoch = 0;
  for (int run = 0; run < 3; ++run) {
    auto store = open(in_file());
    ASSERT_TRUE(store) << store.error().message;
    if (run == 0) epoch = (*store)->any().epoch();
    EXPECT_EQ((*store)->any().epoch(), epoch);
    EXPECT_EQ((*store)->report()["next"], run);
    (*store)->publish(bytes_of("message"), 1);
    (*store)->commit();
  }
}

TEST_F(ServedStoreTest, AStoreIsOnePublishersAtATime) {
  auto first = open(in_file());
  ASSERT_TRUE(first);
  const auto second = open(in_file());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another publisher's"));
  first->reset();
  EXPECT_TRUE(open(in_file()));
}

TEST_F(ServedStoreTest, AFileThatIsNoSuchStoreIsLeftAlone) {
  const std::string text(publisher::store_bytes(65'536), 'x');
  folder_.write("store", text);
  const auto other = open(in_file());
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr(folder_.path("store")));
  EXPECT_EQ(folder_.read("store"), text);
  folder_.write("store", "x");
  const auto shorter = open(in_file());
  ASSERT_FALSE(shorter);
  EXPECT_THAT(shorter.error().message, HasSubstr("has 1 bytes"));
  EXPECT_EQ(folder_.read("store"), "x");
  StoreSpec folder = in_file();
  folder.file = folder_.path("");
  EXPECT_FALSE(open(folder));
}

TEST_F(ServedStoreTest, AFileWhosePublisherEndedBeforeItWroteAnythingIsANewStore) {
  folder_.write("store", std::string(publisher::store_bytes(65'536), '\0'));
  auto store = open(in_file());
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ((*store)->report()["next"], 0);
}

TEST_F(ServedStoreTest, AConflatedStoreFitsIntoItsSize) {
  for (const std::uint32_t keys : {1u, 10u, 100u}) {
    auto store = open({.name = "p", .bytes = 65'536, .kind = StoreKind::conflated, .keys = keys});
    ASSERT_TRUE(store) << store.error().message;
    EXPECT_LE((*store)->any().memory().size(), 65'536 + sizeof(publisher::ControlBlock));
    // Not much is wasted.
    EXPECT_GE((*store)->any().message_max(), 65'536 / keys - 128);
  }
  const auto none = open({.name = "p", .bytes = 4096, .kind = StoreKind::conflated, .keys = 4096});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("too few for 4096 keys"));
}

TEST_F(ServedStoreTest, WhatHasNoSlotIsCountedAndToldOnce) {
  auto store = open({.name = "p", .bytes = 4096, .kind = StoreKind::conflated, .keys = 2});
  ASSERT_TRUE(store);
  ::testing::internal::CaptureStderr();
  for (const char* message : {"a 1", "b 1", "c 1", "a 2", "d 1"}) {
    (*store)->publish(bytes_of(message), 1);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  EXPECT_EQ((*store)->report()["keys"], 2);
  EXPECT_EQ((*store)->report()["refused_no_slot"], 2);
}

TEST(MessageKey, IsThePartThatTheRuleNames) {
  const auto key = [](std::string_view text, std::size_t bytes) {
    return key_of(bytes_of(text), {.bytes = bytes});
  };
  EXPECT_EQ(key("IBM 1", 0), key("IBM 2", 0));
  EXPECT_EQ(key("IBM\t1", 0), key("IBM", 0));
  EXPECT_NE(key("IBM 1", 0), key("IBN 1", 0));
  EXPECT_EQ(key("abcd", 2), key("abef", 2));
  EXPECT_NE(key("abcd", 3), key("abef", 3));
  EXPECT_EQ(key("ab", 5), key("ab", 9));
  EXPECT_EQ(key("", 0), key(" x", 0));
}

}  // namespace
}  // namespace rockhopper::apps::publish
