// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/pcap_source.h"

#include <gmock/gmock.h>

#include "tests/support/seed.h"
#include "tests/unit/publish/capture_file.h"
#include "tests/unit/publish/source_helpers.h"
#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::publish::pcap_source_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kFirstNs = 1'700'000'000'123'456'789;

std::unique_ptr<PcapSource> open(const std::string& path, double speed, std::size_t max = 65'536) {
  auto source = PcapSource::open(path, speed, max);
  EXPECT_TRUE(source) << source.error().message;
  return std::move(*source);
}

TEST(PcapSource, EachPacketIsAMessage) {
  const TemporaryFolder folder;
  roce::SeededRandom random(test::seed());
  std::vector<CapturedPacket> packets;
  std::vector<std::string> expected;
  for (std::uint64_t i = 0; i < 500; ++i) {
    packets.push_back({kFirstNs + i * 1000, random_message(random, 14 + random.below(4000), true)});
    expected.push_back(packets.back().bytes);
  }
  write_capture(folder.path("c"), packets);
  const Taken taken = take_all(*open(folder.path("c"), 0));
  EXPECT_EQ(taken.messages, expected);
  EXPECT_TRUE(taken.ended);
}

TEST(PcapSource, HasThePausesOfTheCaptureToTheNanosecond) {
  const TemporaryFolder folder;
  write_capture(folder.path("c"), {{kFirstNs, "a"}, {kFirstNs + 999, "b"}, {kFirstNs + 4000, "c"}});
  constexpr std::uint64_t kBeginNs = 50;
  const auto own = open(folder.path("c"), 1);
  EXPECT_THAT(take_all(*own, kBeginNs).messages, ElementsAre("a"));
  EXPECT_THAT(take_all(*own, kBeginNs + 998).messages, IsEmpty());
  EXPECT_THAT(take_all(*own, kBeginNs + 999).messages, ElementsAre("b"));
  EXPECT_THAT(take_all(*own, kBeginNs + 3999).messages, IsEmpty());
  const Taken last = take_all(*own, kBeginNs + 4000);
  EXPECT_THAT(last.messages, ElementsAre("c"));
  EXPECT_TRUE(last.ended);

  const auto twice = open(folder.path("c"), 2);
  EXPECT_THAT(take_all(*twice, kBeginNs).messages, ElementsAre("a"));
  EXPECT_THAT(take_all(*twice, kBeginNs + 1999).messages, ElementsAre("b"));
  EXPECT_THAT(take_all(*twice, kBeginNs + 2000).messages, ElementsAre("c"));
}

TEST(PcapSource, TimeThatGoesBackIsNoPause) {
  const TemporaryFolder folder;
  write_capture(folder.path("c"), {{kFirstNs, "a"}, {kFirstNs - 5000, "b"}, {kFirstNs + 1, "c"}});
  EXPECT_THAT(take_all(*open(folder.path("c"), 1), 1000).messages, ElementsAre("a", "b"));
}

TEST(PcapSource, PacketsThatWereCutAreCounted) {
  const TemporaryFolder folder;
  write_capture(folder.path("c"), {{kFirstNs, "whole"}, {kFirstNs, "beginning", 100}});
  const auto source = open(folder.path("c"), 0);
  EXPECT_THAT(take_all(*source).messages, ElementsAre("whole", "beginning"));
  EXPECT_EQ(counters_of(*source)["cut"], 1u);
}

// PB-31
TEST(PcapSource, APacketThatIsTooLongIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  write_capture(folder.path("c"), {{kFirstNs, "12345678"}, {kFirstNs, "123456789"}});
  const Taken taken = take_all(*open(folder.path("c"), 0, 8));
  EXPECT_THAT(taken.messages, ElementsAre("12345678"));
  EXPECT_THAT(taken.error, HasSubstr("packet 2 has 9 bytes"));
}

TEST(PcapSource, ADamagedCaptureIsAnErrorBehindWhatIsWhole) {
  const TemporaryFolder folder;
  write_capture(folder.path("c"), {{kFirstNs, "first"}, {kFirstNs, "second"}});
  const std::string whole = folder.read("c");
  folder.write("c", whole.substr(0, whole.size() - 1));
  const Taken taken = take_all(*open(folder.path("c"), 0));
  EXPECT_THAT(taken.messages, ElementsAre("first"));
  EXPECT_THAT(taken.error, HasSubstr("damaged behind packet 1"));
}

TEST(PcapSource, WhatIsNoCaptureIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THAT(PcapSource::open(folder.path("none"), 1, 100).error().message, HasSubstr("none"));
  EXPECT_THAT(PcapSource::open(folder.path(""), 1, 100).error().message, HasSubstr("a file"));
  EXPECT_THAT(PcapSource::open(folder.write("text", "no capture at all"), 1, 100).error().message,
              HasSubstr("is no capture"));
}

}  // namespace
}  // namespace rockhopper::apps::publish::pcap_source_test
