// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Records of a ring, byte by byte (PB-20).
#include "apps/services/publisher/record.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::publisher::record_test {
namespace {

constexpr RecordHeader kHeader{
    .position = 4096 + 32, .sequence = 77, .epoch = 0x12345678, .time_ns = 5'000, .type = 9};
constexpr ExpectedRecord kExpected{
    .position = 4096 + 32, .epoch = 0x12345678, .sequence = 77, .message_max = 1000};

/// Castagnoli's polynomial bit by bit, independent of the library.
std::uint32_t slow_crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    }
  }
  return ~crc;
}

std::vector<std::byte> random_bytes(sim::Rng& rng, std::size_t length) {
  std::vector<std::byte> bytes(length);
  rng.fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

std::vector<std::byte> record_of(std::span<const std::byte> payload,
                                 const RecordHeader& header = kHeader) {
  std::vector<std::byte> bytes(Record::size_of(payload.size()), std::byte{0xee});
  emit_record(bytes.data(), header, payload);
  return bytes;
}

// The check value of the catalogue of CRCs, and the library against a slow one, whole and in parts.
TEST(Records, ChecksumIsCrc32c) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32c(0, std::as_bytes(std::span(digits))), 0xe3069283u);
  sim::Rng rng(test::seed());
  for (int i = 0; i < 50; ++i) {
    const auto bytes = random_bytes(rng, rng.between(0, 300));
    const std::size_t cut = rng.between(0, bytes.size());
    const std::span<const std::byte> all(bytes);
    EXPECT_EQ(crc32c(crc32c(0, all.first(cut)), all.subspan(cut)), slow_crc32c(bytes));
  }
}

// PB-20: where each field is.
TEST(Records, LayoutIsAsWritten) {
  sim::Rng rng(test::seed());
  const auto payload = random_bytes(rng, 21);
  const auto bytes = record_of(payload);
  ASSERT_EQ(bytes.size(), 96u);  // 40 + 21 + 8, to the next multiple of 32
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data()), kHeader.position);
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + 8), kHeader.sequence);
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 16), kHeader.epoch);
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 20), 21u);
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + 24), kHeader.time_ns);
  EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + 32), kHeader.type);
  EXPECT_EQ(load_le<std::uint16_t>(bytes.data() + 34), 0u);
  std::vector<std::byte> summed(bytes.begin(), bytes.begin() + 36);
  summed.insert(summed.end(), payload.begin(), payload.end());
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 36), slow_crc32c(summed));
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), bytes.begin() + 40));
  for (std::size_t i = 61; i < 88; ++i) {
    EXPECT_EQ(bytes[i], std::byte{0});
  }
  EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + 88), ~kHeader.sequence);
}

TEST(Records, WhatIsWrittenIsRead) {
  sim::Rng rng(test::seed());
  for (const std::size_t length : {0u, 1u, 15u, 16u, 17u, 47u, 48u, 49u, 999u, 1000u}) {
    const auto payload = random_bytes(rng, length);
    const auto bytes = record_of(payload);
    const auto [status, record] = Record::parse(bytes, kExpected);
    ASSERT_EQ(status, RecordStatus::valid) << to_string(status);
    EXPECT_EQ(record.size, bytes.size());
    EXPECT_EQ(record.sequence, kHeader.sequence);
    EXPECT_EQ(record.time_ns, kHeader.time_ns);
    EXPECT_EQ(record.type, kHeader.type);
    EXPECT_TRUE(
        std::equal(payload.begin(), payload.end(), record.payload.begin(), record.payload.end()));
  }
}

// PB-20: every kind of a record that is not the one looked for is told by its reason.
TEST(Records, EachReasonIsTold) {
  const auto bytes = record_of(std::vector<std::byte>(100));
  const auto status = [&](ExpectedRecord expected) {
    return Record::parse(bytes, expected).status;
  };
  auto other = kExpected;
  other.position += 65536;
  EXPECT_EQ(status(other), RecordStatus::wrong_position);
  other = kExpected;
  ++other.epoch;
  EXPECT_EQ(status(other), RecordStatus::wrong_epoch);
  other = kExpected;
  ++other.sequence;
  EXPECT_EQ(status(other), RecordStatus::wrong_sequence);
  other.any_sequence = true;
  EXPECT_EQ(status(other), RecordStatus::wrong_sequence) << "earlier than the least";
  other.sequence = 0;
  EXPECT_EQ(status(other), RecordStatus::valid);
  other = kExpected;
  other.message_max = 99;
  EXPECT_EQ(status(other), RecordStatus::wrong_length);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(Record::parse(std::span(bytes).first(length), kExpected).status,
              RecordStatus::truncated);
  }
}

// PB-20: the end of another record behind an intact beginning.
TEST(Records, AnotherTrailerIsSeen) {
  auto bytes = record_of(std::vector<std::byte>(100));
  store_le(bytes.data() + bytes.size() - 8, ~(kHeader.sequence + 8));
  EXPECT_EQ(Record::parse(bytes, kExpected).status, RecordStatus::wrong_trailer);
}

// PB-20: a middle that has been overwritten while it was copied, though both ends are as they were.
TEST(Records, AnotherMiddleIsSeen) {
  sim::Rng rng(test::seed());
  const auto payload = random_bytes(rng, 1000);
  auto bytes = record_of(payload);
  const auto newer = random_bytes(rng, 256);
  std::copy(newer.begin(), newer.end(), bytes.begin() + 256);
  EXPECT_EQ(Record::parse(bytes, kExpected).status, RecordStatus::wrong_checksum);
}

// PB-20: no bit matters to nobody, but for those between payload and trailer.
TEST(Records, EachBitIsGuarded) {
  sim::Rng rng(test::seed());
  const auto payload = random_bytes(rng, 30);
  const auto bytes = record_of(payload);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const std::size_t at = bit / 8;
    if (at >= 70 && at < bytes.size() - 8) continue;
    auto damaged = bytes;
    damaged[at] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(Record::parse(damaged, kExpected).status, RecordStatus::valid) << "bit " << bit;
  }
}

TEST(Records, PaddingNeedsItsHeaderOnly) {
  std::vector<std::byte> bytes(512, std::byte{0xee});
  emit_padding(bytes, kHeader);
  const auto [status, record] = Record::parse(std::span(bytes).first(40), kExpected);
  ASSERT_EQ(status, RecordStatus::valid);
  EXPECT_TRUE(record.is_padding());
  EXPECT_EQ(record.size, 512u);
  EXPECT_TRUE(record.payload.empty());
  auto shorter = kExpected;
  shorter.message_max = 100;
  EXPECT_EQ(Record::parse(bytes, shorter).status, RecordStatus::wrong_length);
}

TEST(Records, AnEpochCanBeChanged) {
  sim::Rng rng(test::seed());
  const auto payload = random_bytes(rng, 333);
  auto bytes = record_of(payload);
  const RecordShape shape = change_epoch(bytes.data(), 5);
  EXPECT_EQ(shape.size, bytes.size());
  auto expected = kExpected;
  expected.epoch = 5;
  EXPECT_EQ(Record::parse(bytes, expected).status, RecordStatus::valid);
  EXPECT_EQ(Record::parse(bytes, kExpected).status, RecordStatus::wrong_epoch);
}

// Bytes of anything: never valid, and nothing beyond them is read (under AddressSanitizer).
TEST(Records, AnyBytesAreTaken) {
  sim::Rng rng(test::seed());
  for (int i = 0; i < 2000; ++i) {
    auto bytes = random_bytes(rng, rng.between(0, 200));
    if (bytes.size() >= 40 && rng.chance(80)) {
      store_le(bytes.data(), kExpected.position);
      store_le(bytes.data() + 8, kExpected.sequence);
      store_le(bytes.data() + 16, kExpected.epoch);
      if (rng.chance(50)) store_le(bytes.data() + 20, rng.between32(0, 1100));
    }
    EXPECT_NE(Record::parse(bytes, kExpected).status, RecordStatus::valid);
  }
}

}  // namespace
}  // namespace rockhopper::publisher::record_test
