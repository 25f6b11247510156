// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/output_stream.h"

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <gmock/gmock.h>

#include "tests/support/seed.h"
#include "tests/unit/publish/pipe.h"
#include "tests/unit/publish/source_helpers.h"
#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::subscribe {
namespace {

using ::testing::HasSubstr;

TEST(OutputStream, AFileTakesEverythingAtOnce) {
  const publish::TemporaryFolder folder;
  folder.write("out", "what was there before and is longer");
  auto stream = OutputStream::create(folder.path("out"));
  ASSERT_TRUE(stream);
  stream->buffer() += "one";
  ASSERT_TRUE(stream->flush());
  stream->buffer() += " two";
  ASSERT_TRUE(stream->flush());
  EXPECT_EQ(stream->waiting(), 0u);
  EXPECT_EQ(folder.read("out"), "one two");
}

TEST(OutputStream, APipeThatIsFullIsNotWaitedFor) {
  roce::SeededRandom random(test::seed());
  publish::Pipe pipe;
  OutputStream stream(std::move(pipe.writing), "pipe");
  const std::string all = publish::random_message(random, 3 * OutputStream::kFullBytes, true);
  std::size_t given = 0;
  std::string got;
  bool was_full = false;
  while (got.size() < all.size()) {
    while (given < all.size() && !stream.is_full()) {
      const std::size_t piece =
          std::min<std::size_t>(1 + random.below(300'000), all.size() - given);
      stream.buffer() += all.substr(given, piece);
      given += piece;
    }
    was_full = was_full || stream.is_full();
    ASSERT_TRUE(stream.flush());
    ASSERT_EQ(::fcntl(pipe.reading.get(), F_SETFL, O_NONBLOCK), 0);
    std::string part(1 + random.below(100'000), '\0');
    const ssize_t read = ::read(pipe.reading.get(), part.data(), part.size());
    if (read > 0) got += part.substr(0, static_cast<std::size_t>(read));
  }
  EXPECT_TRUE(was_full);
  EXPECT_EQ(got, all);
  EXPECT_EQ(stream.waiting(), 0u);
}

TEST(OutputStream, AClosedPipeIsAnErrorThatNamesIt) {
  (void)std::signal(SIGPIPE, SIG_IGN);
  publish::Pipe pipe;
  OutputStream stream(std::move(pipe.writing), "standard output");
  pipe.close_reading();
  stream.buffer() += "x";
  const auto flushed = stream.flush();
  ASSERT_FALSE(flushed);
  EXPECT_THAT(flushed.error().message, HasSubstr("standard output cannot be written: Broken pipe"));
}

TEST(OutputStream, AFullDiskIsAnErrorThatNamesIt) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY));
  if (!full.valid()) {
    GTEST_SKIP() << "no /dev/full";
  }
  OutputStream stream(FileDescriptor(::dup(full.get())), "out");
  stream.buffer() += "x";
  const auto flushed = stream.flush();
  ASSERT_FALSE(flushed);
  EXPECT_THAT(flushed.error().message, HasSubstr("out cannot be written: No space left"));
}

TEST(OutputStream, AFileThatCannotBeMadeIsAnError) {
  const publish::TemporaryFolder folder;
  EXPECT_THAT(OutputStream::create(folder.path("none/out")).error().message,
              HasSubstr(folder.path("none/out")));
}

}  // namespace
}  // namespace rockhopper::apps::subscribe
