// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/byte_input.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/unit/publish/pipe.h"
#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::publish {
namespace {

using ::testing::HasSubstr;

TEST(ByteInput, WhatCannotBeReadIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  EXPECT_THAT(ByteInput::open(folder.path("none"), false).error().message,
              HasSubstr(folder.path("none")));
  EXPECT_THAT(ByteInput::open(folder.path(""), false).error().message, HasSubstr("is a folder"));
}

TEST(ByteInput, OnlyFilesCanBeFollowed) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(ByteInput::open(folder.path("fifo"), true).error().message, HasSubstr("followed"));
  const FileDescriptor file(::open(folder.write("in", "x").c_str(), O_RDONLY));
  const Replaced input(STDIN_FILENO, file.get());
  EXPECT_THAT(ByteInput::open("-", true).error().message, HasSubstr("standard input"));
}

TEST(ByteInput, AFifoWithoutAWriterIsNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  auto input = ByteInput::open(folder.path("fifo"), false);
  ASSERT_TRUE(input);
  EXPECT_EQ(input->read(0).value(), ByteInput::Read::nothing);
  {
    const FileDescriptor writer(::open(folder.path("fifo").c_str(), O_WRONLY));
    ASSERT_EQ(::write(writer.get(), "ab", 2), 2);
    EXPECT_EQ(input->read(0).value(), ByteInput::Read::bytes);
    EXPECT_EQ(input->bytes().size(), 2u);
  }
  EXPECT_EQ(input->read(0).value(), ByteInput::Read::end);
}

TEST(ByteInput, TheFileBehindAFollowedNameMayBeAwayForAWhile) {
  const TemporaryFolder folder;
  auto input = ByteInput::open(folder.write("in", "x"), true);
  ASSERT_TRUE(input);
  std::uint64_t now_ns = 1;
  const auto look = [&] { return input->read(now_ns += ByteInput::kFollowNs).value(); };
  EXPECT_EQ(look(), ByteInput::Read::bytes);
  std::filesystem::remove(folder.path("in"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(look(), ByteInput::Read::nothing);
  }
  // Neither a folder nor a FIFO is a file that could take its place.
  std::filesystem::create_directory(folder.path("in"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(look(), ByteInput::Read::nothing);
  }
  std::filesystem::remove(folder.path("in"));
  ASSERT_EQ(::mkfifo(folder.path("in").c_str(), 0600), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(look(), ByteInput::Read::nothing);
  }
  std::filesystem::remove(folder.path("in"));
  folder.write("in", "y");
  // Of two looks the first may have been at what was there before.
  if (const auto first = look(); first != ByteInput::Read::restarted) {
    EXPECT_EQ(first, ByteInput::Read::nothing);
    EXPECT_EQ(look(), ByteInput::Read::restarted);
  }
  EXPECT_EQ(look(), ByteInput::Read::bytes);
  EXPECT_EQ(input->replacements(), 1u);
}

}  // namespace
}  // namespace rockhopper::apps::publish
