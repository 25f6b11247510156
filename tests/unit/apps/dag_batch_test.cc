// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/common/json_bytes.h"
#include "apps/rh_dag/batch.h"
#include "apps/rh_dag/connect_options.h"

namespace rockhopper::apps::dag_node {
namespace {

TEST(Batch, LinesAreVerbKeyAndTheRest) {
  const auto get = parse_batch_line("  get\ta ");
  ASSERT_TRUE(get);
  EXPECT_EQ(get->task.verb, Verb::get);
  EXPECT_EQ(get->task.key, "a");
  const auto put = parse_batch_line("put key one  two ");
  ASSERT_TRUE(put);
  EXPECT_EQ(as_text(put->task.data), "one  two ");
  const auto empty = parse_batch_line("create key");
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->task.data.empty());
  const auto add = parse_batch_line("add key 3 18446744073709551615");
  ASSERT_TRUE(add);
  EXPECT_EQ(add->task.word, 3u);
  EXPECT_EQ(add->task.value, UINT64_MAX);
  const auto read = parse_batch_line("read 10 a b c");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->reads, 10u);
  EXPECT_THAT(read->keys, testing::ElementsAre("a", "b", "c"));
}

TEST(Batch, LinesThatSayNothingAreRefused) {
  for (const char* line : {"", "fly a", "get", "get a b", "delete", "resize a", "resize a 0",
                           "resize a 1x", "resize a 4294967296", "add a", "add a 4 1", "add a 0 -1",
                           "add a 0 1 2", "read", "read 0 a", "read 5", "read many a"}) {
    EXPECT_FALSE(parse_batch_line(line)) << line;
  }
  EXPECT_FALSE(parse_batch_line("get " + std::string(257, 'k')));
  EXPECT_TRUE(parse_batch_line("get " + std::string(256, 'k')));
}

TEST(ServerAddress, IsHostAndPort) {
  const auto is = [](const char* text, const char* host, std::uint16_t port) {
    const auto address = parse_server_address(text);
    EXPECT_TRUE(address) << text;
    return address && address->host == host && address->port == port;
  };
  EXPECT_TRUE(is("localhost", "localhost", kDefaultPort));
  EXPECT_TRUE(is("10.0.0.1:99", "10.0.0.1", 99));
  EXPECT_TRUE(is("fd00::1", "fd00::1", kDefaultPort));
  EXPECT_TRUE(is("[fd00::1]", "fd00::1", kDefaultPort));
  EXPECT_TRUE(is("[fd00::1]:65535", "fd00::1", 65535));
  for (const char* text :
       {"", ":", "a:", "a:0", "a:65536", "a:b", "[", "[::1", "[::1]:", "[::1]x", "[]:5", "a[b"}) {
    EXPECT_FALSE(parse_server_address(text)) << text;
  }
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
