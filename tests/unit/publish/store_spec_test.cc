// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/store_spec.h"

#include <gmock/gmock.h>

namespace rockhopper::apps::publish {
namespace {

using publisher::StoreKind;
using ::testing::HasSubstr;

TEST(StoreSpec, SaysNameSizeAndKind) {
  const auto log = parse_store("news=64KiB");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->name, "news");
  EXPECT_EQ(log->bytes, 64u << 10);
  EXPECT_EQ(log->kind, StoreKind::log);
  EXPECT_EQ(log->file, "");
  const auto file = parse_store("news=1MiB:file=/a/b:c=d");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->file, "/a/b:c=d");
  const auto conflated = parse_store("p=100kB:conflated:keys=7");
  ASSERT_TRUE(conflated);
  EXPECT_EQ(conflated->kind, StoreKind::conflated);
  EXPECT_EQ(conflated->keys, 7u);
  EXPECT_EQ(conflated->bytes, 100'000u);
}

TEST(StoreSpec, WhatIsNoneIsRefusedInALineThatQuotesIt) {
  for (const char* text :
       {"", "news", "=64KiB", "a/b=64KiB", "news=", "news=0", "news=x", "news=65KiB", "news=2KiB",
        "news=64KiB:", "news=64KiB:x", "news=64KiB:keys=1",
        "news=64KiB:conflated:keys=", "news=64KiB:conflated:keys=0",
        "news=64KiB:conflated:keys=9999999", "news=64KiB:file=", "news=64KiB:conflated:file=x"}) {
    const auto spec = parse_store(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error().message, HasSubstr(std::string("--store ") + text));
  }
}

TEST(KeyRule, IsAWordOrANumberOfBytes) {
  EXPECT_EQ(parse_key_rule("word").value().bytes, 0u);
  EXPECT_EQ(parse_key_rule("bytes:12").value().bytes, 12u);
  for (const char* text : {"", "words", "bytes", "bytes:", "bytes:0", "bytes:x"}) {
    EXPECT_FALSE(parse_key_rule(text)) << text;
  }
}

}  // namespace
}  // namespace rockhopper::apps::publish
