// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/lane.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "stack/plain_pool.h"
#include "stack/random.h"
#include "stack/without_icrc.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::segment {
namespace {

using test::Bytes;

constexpr std::uint32_t kLengthBytes = 8;

class LaneTest : public ::testing::Test {
 protected:
  /// Returns false if there was no room.
  bool put(LaneWriter& writer, const Bytes& frame, std::size_t segment = 0) {
    rte_mbuf* packet = test::make_packet(pool_->get(), frame, segment);
    const bool done = writer.put(*packet);
    rte_pktmbuf_free(packet);
    return done;
  }
  /// Returns the next frame; nothing if there is none.
  static std::optional<Bytes> take(LaneReader& reader) {
    const auto frame = reader.front();
    if (!frame) return std::nullopt;
    const auto in_lane = frame->bytes;
    if (in_lane.empty()) return Bytes();
    Bytes bytes(in_lane.size());
    std::memcpy(bytes.data(), in_lane.data(), in_lane.size());
    reader.pop();
    return bytes;
  }
  /// Writes a length where the reader looks next.
  void forge_length(std::uint32_t at, std::uint32_t length) {
    std::memcpy(&lane_->bytes[at], &length, sizeof length);
  }
  void publish_forged(std::uint32_t bytes) { lane_->put.store(bytes); }
  void forge_mark(std::uint32_t at, std::uint32_t mark) { forge_length(at + 4, mark); }
  static void expect_damage(LaneReader& reader) {
    const auto frame = reader.front();
    ASSERT_TRUE(frame.has_value());
    EXPECT_TRUE(frame->bytes.empty()) << frame->bytes.size() << " bytes";
  }

  std::unique_ptr<PlainPool> pool_ = std::move(*PlainPool::create({.size = 64, .data_room = 4096}));
  std::unique_ptr<Lane> lane_ = std::make_unique<Lane>();
  LaneReader reader_{*lane_};
};

TEST_F(LaneTest, FramesArriveInOrderOncePublished) {
  LaneWriter writer(*lane_);
  EXPECT_FALSE(writer.publish());
  ASSERT_TRUE(put(writer, Bytes(14, 1)));
  ASSERT_TRUE(put(writer, Bytes(1000, 2), 100));
  EXPECT_EQ(take(reader_), std::nullopt);
  EXPECT_FALSE(reader_.waits());
  EXPECT_TRUE(writer.publish());
  EXPECT_TRUE(reader_.waits());
  EXPECT_EQ(take(reader_), Bytes(14, 1));
  EXPECT_EQ(take(reader_), Bytes(1000, 2));
  EXPECT_EQ(take(reader_), std::nullopt);
  EXPECT_FALSE(reader_.waits());
}

TEST_F(LaneTest, SaysWithoutALookWhetherMoreWasThere) {
  LaneWriter writer(*lane_);
  ASSERT_TRUE(put(writer, Bytes(14, 1)) && put(writer, Bytes(14, 2)) && writer.publish());
  EXPECT_FALSE(reader_.waits_since_the_last_look()) << "nobody has looked";
  EXPECT_EQ(take(reader_), Bytes(14, 1));
  EXPECT_TRUE(reader_.waits_since_the_last_look());
  ASSERT_TRUE(put(writer, Bytes(14, 3)) && writer.publish());
  EXPECT_EQ(take(reader_), Bytes(14, 2));
  EXPECT_FALSE(reader_.waits_since_the_last_look()) << "the third came after the look";
  EXPECT_EQ(take(reader_), Bytes(14, 3));
}

TEST_F(LaneTest, RoomComesBackWhenItIsReleased) {
  LaneWriter writer(*lane_);
  const Bytes frame(4096 - kLengthBytes, 3);
  std::uint32_t count = 0;
  while (put(writer, frame)) {
    ++count;
  }
  EXPECT_EQ(count, Lane::kBytes / 4096) << "all of the lane is used";
  writer.publish();
  ASSERT_TRUE(take(reader_).has_value());
  EXPECT_FALSE(put(writer, frame)) << "not released yet";
  reader_.release();
  EXPECT_TRUE(put(writer, frame));
  EXPECT_FALSE(put(writer, frame));
}

TEST_F(LaneTest, FramesOfAnyLengthGoRoundInOnePiece) {
  LaneWriter writer(*lane_);
  Random random(test::seed());
  std::vector<Bytes> under_way;
  std::size_t taken = 0;
  for (int i = 0; i < 5000; ++i) {
    Bytes frame = test::random_bytes(random, 14 + random.below(kFrameMax / 8));
    if (put(writer, frame)) under_way.push_back(std::move(frame));
    if (random.below(3) != 0) continue;
    writer.publish();
    while (const auto got = take(reader_)) {
      ASSERT_EQ(*got, under_way.at(taken)) << "frame " << taken;
      under_way[taken++].clear();
    }
    reader_.release();
  }
  EXPECT_GT(taken, 1000u);
}

TEST_F(LaneTest, LargestFrameFitsWhereverTheLastOneEnded) {
  LaneWriter writer(*lane_);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(put(writer, Bytes(kFrameMax, 5))) << i;
    ASSERT_TRUE(put(writer, Bytes(14 + 8 * i, 6))) << i;
    writer.publish();
    ASSERT_EQ(take(reader_), Bytes(kFrameMax, 5));
    ASSERT_EQ(take(reader_), Bytes(14 + 8 * i, 6));
    reader_.release();
  }
}

TEST_F(LaneTest, NextSenderGoesOnBehindTheLast) {
  {
    LaneWriter first(*lane_);
    ASSERT_TRUE(put(first, Bytes(20, 1)));
    first.publish();
    ASSERT_TRUE(put(first, Bytes(20, 2)));  // and it dies before it publishes
  }
  LaneWriter second(*lane_);
  ASSERT_TRUE(put(second, Bytes(30, 3)));
  second.publish();
  EXPECT_EQ(take(reader_), Bytes(20, 1));
  EXPECT_EQ(take(reader_), Bytes(30, 3));
  EXPECT_EQ(take(reader_), std::nullopt);
}

TEST_F(LaneTest, ForgedLengthsEmptyTheLane) {
  for (const std::uint32_t length : {0u, 13u, kFrameMax + 1, UINT32_MAX - 1, 0x80000000u}) {
    SCOPED_TRACE(length);
    Lane& lane = *(lane_ = std::make_unique<Lane>());
    LaneReader reader(lane);
    forge_length(0, length);
    publish_forged(64);
    expect_damage(reader);
    EXPECT_FALSE(reader.front());
    // What comes later is good again.
    LaneWriter writer(lane);
    ASSERT_TRUE(put(writer, Bytes(14, 9)));
    writer.publish();
    EXPECT_EQ(take(reader), Bytes(14, 9));
  }
}

TEST_F(LaneTest, SaysWhichFramesHaveNoIcrc) {
  LaneWriter writer(*lane_);
  for (const bool without : {true, false, true}) {
    rte_mbuf* packet = test::make_packet(pool_->get(), Bytes(14, 1));
    if (without) packet->ol_flags |= kWithoutIcrc;
    ASSERT_TRUE(writer.put(*packet));
    rte_pktmbuf_free(packet);
  }
  writer.publish();
  for (const bool without : {true, false, true}) {
    const auto frame = reader_.front();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->without_icrc, without);
    reader_.pop();
  }
}

TEST_F(LaneTest, AMarkThatMeansNothingIsDamage) {
  LaneWriter writer(*lane_);
  ASSERT_TRUE(put(writer, Bytes(14, 1)));
  writer.publish();
  forge_mark(0, 2);
  expect_damage(reader_);
}

TEST_F(LaneTest, LongerThanWhatWasPublishedIsDamage) {
  forge_length(0, 100);
  publish_forged(kLengthBytes + 96);
  expect_damage(reader_);
}

TEST_F(LaneTest, MoreThanALaneIsDamage) {
  forge_length(0, 14);  // which is good
  publish_forged(Lane::kBytes + 8);
  expect_damage(reader_);
}

TEST_F(LaneTest, UnevenPositionIsDamageAndDoesNotStay) {
  forge_length(0, 14);
  publish_forged(25);
  expect_damage(reader_);
  LaneWriter writer(*lane_);
  ASSERT_TRUE(put(writer, Bytes(14, 9)));
  writer.publish();
  EXPECT_EQ(take(reader_), Bytes(14, 9));
}

TEST_F(LaneTest, SkipBeyondWhatWasPublishedIsDamage) {
  forge_length(0, UINT32_MAX);
  publish_forged(64);
  expect_damage(reader_);
}

TEST_F(LaneTest, ReaderThatSaysNonsenseGetsNothing) {
  LaneWriter writer(*lane_);
  while (put(writer, Bytes(4000))) {
  }
  for (const std::uint32_t taken : {std::uint32_t{8} + Lane::kBytes, 0x80000000u}) {
    lane_->taken.store(taken);
    EXPECT_FALSE(put(writer, Bytes(4000))) << taken;
  }
}

TEST_F(LaneTest, RandomBytesInALaneHarmNobody) {
  Random random(test::seed());
  std::uint64_t frames = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Bytes garbage = test::random_bytes(random, 64);
    std::memcpy(&lane_->bytes[random.below(Lane::kBytes - 64)], garbage.data(), garbage.size());
    lane_->put.store(static_cast<std::uint32_t>(lane_->put.load() + random.below(5000)));
    while (const auto frame = take(reader_)) {
      ASSERT_LE(frame->size(), kFrameMax);
      ++frames;
      if (frame->empty()) break;
    }
    reader_.release();
  }
  EXPECT_GT(frames, 1000u);
}

TEST_F(LaneTest, TwoThreads) {
  constexpr std::uint32_t kFrames = 200'000;
  std::atomic<bool> ok{true};
  std::thread receiver([&] {
    for (std::uint32_t next = 0; next < kFrames;) {
      const auto frame = take(reader_);
      if (!frame) {
        reader_.release();
        continue;
      }
      std::uint32_t number = 0;
      std::memcpy(&number, frame->data(), sizeof number);
      if (number != next || frame->size() != 14 + number % 1000) ok = false;
      ++next;
      if (next % 16 == 0) reader_.release();
    }
  });
  LaneWriter writer(*lane_);
  rte_mbuf* packet = rte_pktmbuf_alloc(pool_->get());
  for (std::uint32_t number = 0; number < kFrames;) {
    rte_pktmbuf_reset(packet);
    char* data = rte_pktmbuf_append(packet, static_cast<std::uint16_t>(14 + number % 1000));
    std::memcpy(data, &number, sizeof number);
    if (writer.put(*packet)) ++number;
    if (number % 8 == 0) writer.publish();
  }
  writer.publish();
  receiver.join();
  rte_pktmbuf_free(packet);
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace rockhopper::stack::segment
