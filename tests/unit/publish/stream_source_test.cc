// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/stream_source.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "tests/support/seed.h"
#include "tests/unit/publish/pipe.h"
#include "tests/unit/publish/source_helpers.h"
#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::publish::stream_source_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kMax = 100'000;

std::unique_ptr<StreamSource> open(const std::string& path, Framing framing, bool follow = false,
                                   std::size_t payload_max = kMax) {
  auto source = StreamSource::open(path, framing, follow, payload_max);
  EXPECT_TRUE(source) << source.error().message;
  return std::move(*source);
}

/// Messages of all lengths up to a few chunks of what is read at once.
std::vector<std::string> random_messages(roce::Random& random, bool all) {
  std::vector<std::string> messages;
  for (int i = 0; i < 300; ++i) {
    const std::size_t length =
        random.below(3) == 0 ? 0 : random.below(std::size_t{1} << random.below(17));
    messages.push_back(random_message(random, length, all));
  }
  messages.push_back(random_message(random, kMax, all));
  return messages;
}

TEST(LineSource, GivesEachLineOfAFile) {
  const TemporaryFolder folder;
  roce::SeededRandom random(test::seed());
  const auto messages = random_messages(random, false);
  std::string text;
  for (const std::string& message : messages) {
    text += message + "\n";
  }
  const Taken taken = take_all(*open(folder.write("in", text), Framing::lines));
  EXPECT_EQ(taken.messages, messages);
  EXPECT_TRUE(taken.ended);
  EXPECT_EQ(taken.error, "");
}

TEST(LineSource, TheLastLineMayLackItsEnd) {
  const TemporaryFolder folder;
  const Taken taken = take_all(*open(folder.write("in", "one\n\nthree"), Framing::lines));
  EXPECT_THAT(taken.messages, ElementsAre("one", "", "three"));
  EXPECT_TRUE(taken.ended);
}

TEST(LineSource, AnEmptyFileHasNoLine) {
  const TemporaryFolder folder;
  const Taken taken = take_all(*open(folder.write("in", ""), Framing::lines));
  EXPECT_THAT(taken.messages, IsEmpty());
  EXPECT_TRUE(taken.ended);
}

// PB-31: the longest message that the store takes, and one byte more.
TEST(LineSource, ALineThatIsTooLongIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  const std::string fits(kMax, 'x');
  for (const char* end : {"\n", ""}) {
    const auto source = open(folder.write("in", fits + "\n" + fits + "x" + end), Framing::lines);
    const Taken taken = take_all(*source);
    EXPECT_THAT(taken.messages, ElementsAre(fits));
    EXPECT_FALSE(taken.ended);
    EXPECT_THAT(taken.error, HasSubstr("line 2"));
    EXPECT_THAT(taken.error, HasSubstr(std::to_string(kMax)));
  }
}

TEST(LineSource, AnEndlessLineIsNotKept) {
  const TemporaryFolder folder;
  const auto source = open(folder.write("in", std::string(100 * kMax, 'x')), Framing::lines);
  EXPECT_THAT(take_all(*source).error, HasSubstr("line 1 has at least"));
}

TEST(LineSource, StandardInputComesAsItIsWritten) {
  Pipe pipe;
  const Replaced input(STDIN_FILENO, pipe.reading.get());
  const auto source = open("-", Framing::lines);
  EXPECT_THAT(take_all(*source).messages, IsEmpty());
  pipe.write("a\nb\nc");
  EXPECT_THAT(take_all(*source).messages, ElementsAre("a", "b"));
  EXPECT_THAT(take_all(*source).messages, IsEmpty());
  pipe.write("\n");
  EXPECT_THAT(take_all(*source).messages, ElementsAre("c"));
  pipe.close_writing();
  EXPECT_TRUE(take_all(*source).ended);
}

TEST(RecordSource, GivesEachRecordOfAFile) {
  const TemporaryFolder folder;
  roce::SeededRandom random(test::seed());
  const auto messages = random_messages(random, true);
  std::string bytes;
  for (const std::string& message : messages) {
    bytes += record_of(message);
  }
  const Taken taken = take_all(*open(folder.write("in", bytes), Framing::records));
  EXPECT_EQ(taken.messages, messages);
  EXPECT_TRUE(taken.ended);
}

TEST(RecordSource, InputThatEndsInsideARecordIsAnError) {
  const TemporaryFolder folder;
  const std::string whole = record_of("one") + record_of("second");
  for (std::size_t cut = record_of("one").size() + 1; cut < whole.size(); ++cut) {
    const auto source = open(folder.write("in", whole.substr(0, cut)), Framing::records);
    const Taken taken = take_all(*source);
    EXPECT_THAT(taken.messages, ElementsAre("one"));
    EXPECT_THAT(taken.error, HasSubstr("ends inside record 2")) << cut;
  }
}

// PB-31
TEST(RecordSource, ALengthThatIsTooLargeIsAnErrorBeforeAnythingIsRead) {
  const TemporaryFolder folder;
  const auto source =
      open(folder.write("in", record_of("x") + "\xff\xff\xff\xff"), Framing::records);
  const Taken taken = take_all(*source);
  EXPECT_THAT(taken.messages, ElementsAre("x"));
  EXPECT_THAT(taken.error, HasSubstr("record 2 has 4294967295 bytes"));
}

TEST(RecordSource, TheLongestRecordIsTakenAndNoLongerOne) {
  const TemporaryFolder folder;
  const auto fits = open(folder.write("in", record_of("12345678")), Framing::records, false, 8);
  EXPECT_THAT(take_all(*fits).messages, ElementsAre("12345678"));
  const auto longer = open(folder.write("in", record_of("123456789")), Framing::records, false, 8);
  EXPECT_THAT(take_all(*longer).error, HasSubstr("record 1 has 9 bytes"));
}

TEST(RecordSource, APipeMayBringThemInPieces) {
  roce::SeededRandom random(test::seed());
  Pipe pipe;
  const Replaced input(STDIN_FILENO, pipe.reading.get());
  const auto source = open("-", Framing::records);
  const auto messages = random_messages(random, true);
  std::string bytes;
  for (const std::string& message : messages) {
    bytes += record_of(message);
  }
  std::vector<std::string> taken;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t piece = std::min<std::size_t>(1 + random.below(4000), bytes.size() - at);
    pipe.write(std::string_view(bytes).substr(at, piece));
    at += piece;
    for (std::string& message : take_all(*source).messages) {
      taken.push_back(std::move(message));
    }
  }
  EXPECT_EQ(taken, messages);
  pipe.close_writing();
  EXPECT_TRUE(take_all(*source).ended);
}

/// What a source gives at each look from now on.
class Following {
 public:
  explicit Following(Source& source) : source_(source) {}
  std::vector<std::string> look() {
    now_ns_ += ByteInput::kFollowNs;
    const Taken taken = take_all(source_, now_ns_);
    EXPECT_FALSE(taken.ended);
    error = taken.error;
    return taken.messages;
  }
  std::string error;

 private:
  Source& source_;
  std::uint64_t now_ns_ = 0;
};

TEST(FollowedFile, GivesWhatIsAppended) {
  const TemporaryFolder folder;
  const auto source = open(folder.write("in", "one\ntw"), Framing::lines, true);
  Following following(*source);
  EXPECT_THAT(following.look(), ElementsAre("one"));
  folder.append("in", "o\nthree\n");
  EXPECT_THAT(following.look(), ElementsAre("two", "three"));
  EXPECT_THAT(following.look(), IsEmpty());
}

TEST(FollowedFile, IsNotLookedAtAllTheTime) {
  const TemporaryFolder folder;
  const auto source = open(folder.write("in", ""), Framing::lines, true);
  EXPECT_THAT(take_all(*source, 1000).messages, IsEmpty());
  folder.append("in", "one\n");
  EXPECT_THAT(take_all(*source, 2000).messages, IsEmpty());
  EXPECT_THAT(take_all(*source, 1000 + ByteInput::kFollowNs).messages, ElementsAre("one"));
}

TEST(FollowedFile, BeginsAnewWhenItIsTruncated) {
  const TemporaryFolder folder;
  const auto source = open(folder.write("in", "one\ntwo\nrest"), Framing::lines, true);
  Following following(*source);
  EXPECT_THAT(following.look(), ElementsAre("one", "two"));
  folder.write("in", "new\n");
  EXPECT_THAT(following.look(), ElementsAre("rest", "new"));
  EXPECT_EQ(counters_of(*source)["truncations"], 1u);
}

TEST(FollowedFile, GoesOnWithTheFileThatTookItsPlace) {
  const TemporaryFolder folder;
  const auto source = open(folder.write("in", "one\n"), Framing::lines, true);
  Following following(*source);
  EXPECT_THAT(following.look(), ElementsAre("one"));
  std::filesystem::rename(folder.path("in"), folder.path("old"));
  EXPECT_THAT(following.look(), IsEmpty());
  folder.write("in", "new\n");
  EXPECT_THAT(following.look(), IsEmpty());
  // Who writes has not noticed yet.
  folder.append("old", "two\n");
  EXPECT_THAT(following.look(), ElementsAre("two"));
  EXPECT_THAT(following.look(), ElementsAre("new"));
  EXPECT_EQ(counters_of(*source)["replacements"], 1u);
}

TEST(FollowedFile, ARecordWithoutContinuationIsAnError) {
  const TemporaryFolder folder;
  const auto source = open(folder.write("in", record_of("one") + record_of("two").substr(0, 5)),
                           Framing::records, true);
  Following following(*source);
  EXPECT_THAT(following.look(), ElementsAre("one"));
  folder.write("in", record_of("3"));
  EXPECT_THAT(following.look(), IsEmpty());
  EXPECT_THAT(following.error, HasSubstr("ends inside record 2: 1 of its 3 bytes"));
}

}  // namespace
}  // namespace rockhopper::apps::publish::stream_source_test
