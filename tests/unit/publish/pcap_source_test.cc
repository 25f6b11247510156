// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/pcap_source.h"

#include <gmock/gmock.h>
#include <zlib.h>

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

/// As the bytes of a file, of this machine's order.
template <typename T>
std::string number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string compressed(const std::string& bytes) {
  const TemporaryFolder folder;
  gzFile file = gzopen(folder.path("z").c_str(), "wb");
  EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
  return folder.read("z");
}

std::unique_ptr<PcapSource> open(const std::string& path, double speed, std::size_t max = 65'536) {
  auto source = PcapSource::open(path, {.speed = speed}, max);
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

// The first stamp of a capture may be 0, or a clock may have been set while it was taken.
TEST(PcapSource, PausesThatNobodyMeansAreLeftOut) {
  const TemporaryFolder folder;
  constexpr std::uint64_t kSecond = 1'000'000'000;
  write_capture(folder.path("c"), {{0, "a"},
                                   {kFirstNs, "b"},
                                   {kFirstNs + kSecond, "c"},
                                   {kFirstNs + 3 * kSecond + 1, "d"},
                                   {kFirstNs + 4 * kSecond, "e"}});
  auto source = PcapSource::open(folder.path("c"), {.speed = 1, .longest_ns = 2 * kSecond}, 100);
  ASSERT_TRUE(source);
  testing::internal::CaptureStderr();
  EXPECT_THAT(take_all(**source, 5).messages, ElementsAre("a", "b"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("a pause of 1700000000 seconds before packet 2 is left out"));
  EXPECT_THAT(take_all(**source, 5 + kSecond).messages, ElementsAre("c", "d"));
  EXPECT_THAT(take_all(**source, 5 + 2 * kSecond - 2).messages, IsEmpty());
  EXPECT_THAT(take_all(**source, 5 + 2 * kSecond - 1).messages, ElementsAre("e"));
  EXPECT_EQ(counters_of(**source)["pauses_left_out"], 2u);
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

/// A pcapng block.
std::string block(std::uint32_t type, std::string body) {
  body.resize((body.size() + 3) / 4 * 4);
  const auto length = static_cast<std::uint32_t>(body.size() + 12);
  return number(type) + number(length) + body + number(length);
}
std::string interface_block(std::uint16_t link_type, std::uint32_t snap_length) {
  return block(1, number(link_type) + number(std::uint16_t{0}) + number(snap_length));
}
std::string packet_block(std::uint32_t interface, const std::string& bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  return block(
      6, number(interface) + number(0u) + number(0u) + number(length) + number(length) + bytes);
}

// mergecap, and a capture of several interfaces, make such files; tshark reads them.
TEST(PcapSource, InterfacesMayDiffer) {
  const TemporaryFolder folder;
  constexpr std::uint16_t kEthernet = 1;
  constexpr std::uint16_t kRawIp = 101;
  const std::string section =
      block(0x0a0d0d0a, number(0x1a2b3c4du) + number(std::uint16_t{1}) + number(std::uint16_t{0}) +
                            number(~0u) + number(~0u));
  const std::string path = folder.write(
      "c", section + interface_block(kEthernet, 96) + interface_block(kRawIp, 0) +
               packet_block(0, "of the first") + packet_block(1, "of the second") + section +
               interface_block(kRawIp, 65'535) + packet_block(0, std::string(1000, 'x')));
  const Taken taken = take_all(*open(path, 0));
  EXPECT_THAT(taken.messages, ElementsAre("of the first", "of the second", std::string(1000, 'x')));
  EXPECT_EQ(taken.error, "");
}

TEST(PcapSource, ACaptureMayBeCompressed) {
  const TemporaryFolder folder;
  write_capture(folder.path("c"), {{kFirstNs, "first"}, {kFirstNs, std::string(60'000, 'x')}});
  const std::string packed = compressed(folder.read("c"));
  EXPECT_THAT(take_all(*open(folder.write("c.gz", packed), 0)).messages,
              ElementsAre("first", std::string(60'000, 'x')));
  const Taken cut = take_all(*open(folder.write("cut", packed.substr(0, packed.size() - 20)), 0));
  EXPECT_THAT(cut.error, HasSubstr("damaged behind packet"));
}

// Whatever is damaged, it is an error at most.
TEST(PcapSource, DamageOfAnyKindEndsInOneLine) {
  const TemporaryFolder folder;
  roce::SeededRandom random(test::seed());
  write_capture(folder.path("c"), {{kFirstNs, "first"}, {kFirstNs, "second"}});
  const std::string blocks =
      block(0x0a0d0d0a, number(0x1a2b3c4du) + number(std::uint16_t{1}) + number(std::uint16_t{0}) +
                            number(~0u) + number(~0u)) +
      interface_block(1, 96) + interface_block(101, 0) + packet_block(0, "a") +
      packet_block(1, "b");
  for (const std::string& good : {folder.read("c"), blocks, compressed(blocks)}) {
    for (unsigned i = 0; i < 2000; ++i) {
      std::string bytes = good.substr(0, random.below(good.size() + 1));
      for (std::size_t flips = random.below(4); flips > 0 && !bytes.empty(); --flips) {
        bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
      }
      auto source = PcapSource::open(folder.write("d", bytes), {.speed = 0}, 65'536);
      if (!source) continue;
      (void)take_all(**source);
    }
  }
}

TEST(PcapSource, WhatIsNoCaptureIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THAT(PcapSource::open(folder.path("none"), {}, 100).error().message, HasSubstr("none"));
  EXPECT_THAT(PcapSource::open(folder.path(""), {}, 100).error().message, HasSubstr("a file"));
  EXPECT_THAT(PcapSource::open(folder.write("text", "no capture at all"), {}, 100).error().message,
              HasSubstr("is no capture"));
}

}  // namespace
}  // namespace rockhopper::apps::publish::pcap_source_test
