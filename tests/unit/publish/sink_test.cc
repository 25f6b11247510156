// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/sink.h"

#include <gmock/gmock.h>

#include "tests/unit/publish/pipe.h"
#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::subscribe::sink_test {
namespace {

using ::testing::HasSubstr;

Delivery delivery_of(std::string_view store, std::string_view payload) {
  return {.store = store, .payload = std::as_bytes(std::span(payload.data(), payload.size()))};
}

TEST(Sink, HasAFileForEachStore) {
  const publish::TemporaryFolder folder;
  Sink sink(Format::lines, folder.path(""));
  ASSERT_TRUE(sink.add_store("a"));
  ASSERT_TRUE(sink.add_store("b"));
  sink.write(delivery_of("a", "one"));
  sink.write(delivery_of("b", "two"));
  sink.write(delivery_of("a", "three"));
  EXPECT_FALSE(sink.is_empty());
  ASSERT_TRUE(sink.flush());
  EXPECT_TRUE(sink.is_empty());
  EXPECT_EQ(folder.read("a.txt"), "one\nthree\n");
  EXPECT_EQ(folder.read("b.txt"), "two\n");
}

TEST(Sink, OrOneStreamForAll) {
  publish::Pipe pipe;
  const publish::Replaced output(STDOUT_FILENO, pipe.writing.get());
  Sink sink(Format::lines, "");
  ASSERT_TRUE(sink.add_store("a"));
  ASSERT_TRUE(sink.add_store("b"));
  sink.write(delivery_of("b", "one"));
  sink.write(delivery_of("a", "two"));
  ASSERT_TRUE(sink.flush());
  std::array<char, 64> got{};
  const ssize_t length = ::read(pipe.reading.get(), got.data(), got.size());
  EXPECT_EQ(std::string(got.data(), static_cast<std::size_t>(length)), "one\ntwo\n");
}

// PB-21: the exact interval.
TEST(Sink, ALossIsALineOnStandardError) {
  const publish::TemporaryFolder folder;
  Sink sink(Format::json, folder.path(""));
  ASSERT_TRUE(sink.add_store("a"));
  ::testing::internal::CaptureStderr();
  sink.report({.store = "a", .first = 18'446'744'073'709'551'610u, .last = UINT64_MAX});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "a: lost 18446744073709551610-18446744073709551615\n");
  ASSERT_TRUE(sink.flush());
  EXPECT_THAT(folder.read("a.jsonl"), HasSubstr("18446744073709551610"));
}

TEST(Sink, ANameThatLeadsOutOfTheFolderIsRefused) {
  const publish::TemporaryFolder folder;
  Sink sink(Format::lines, folder.path(""));
  for (const char* name : {"../x", "/x", "a/b", "", ".", ".."}) {
    EXPECT_FALSE(sink.add_store(name)) << name;
  }
}

TEST(Sink, IsFullWhenOneOfItsStreamsIs) {
  const publish::TemporaryFolder folder;
  Sink sink(Format::records, folder.path(""));
  ASSERT_TRUE(sink.add_store("a"));
  ASSERT_TRUE(sink.add_store("b"));
  EXPECT_FALSE(sink.is_full());
  sink.write(delivery_of("b", std::string(OutputStream::kFullBytes, 'x')));
  EXPECT_TRUE(sink.is_full());
  ASSERT_TRUE(sink.flush());
  EXPECT_FALSE(sink.is_full());
}

}  // namespace
}  // namespace rockhopper::apps::subscribe::sink_test
