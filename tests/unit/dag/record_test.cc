// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a record's bytes say of themselves (DG-8, DG-15, DG-30, DG-32).
#include "apps/services/dag/record.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag::record_test {
namespace {

using Bytes = std::vector<std::byte>;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Bytes random_bytes(sim::Rng& rng, std::size_t length) {
  Bytes bytes(length);
  rng.fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

Bytes compose(const RecordInit& init) {
  Bytes bytes(record_bytes(init.key.size(), init.capacity, init.slots));
  compose_record(init, bytes);
  return bytes;
}

RecordHeader header_of(const Bytes& record) {
  RecordHeader header;
  std::memcpy(&header, record.data(), sizeof header);
  return header;
}

/// As an update does it.
void update(Bytes& record, std::span<const std::byte> data, std::uint64_t writer) {
  RecordHeader header = header_of(record);
  const RecordWord next = RecordWord::from(header.word).next(header.slots);
  compose_slot(
      header, next.version, writer, data,
      std::span(record).subspan(slot_offset(header.key_length, header.capacity, next.slot)));
  header.word = next.bits();
  std::memcpy(record.data(), &header, sizeof header);
}

// DG-8, DG-15.
TEST(Record, IsFoundByKeyAndIncarnation) {
  sim::Rng rng(test::seed());
  for (const std::size_t key_length : {std::size_t{1}, std::size_t{7}, std::size_t{8}, kKeyMax}) {
    for (const std::uint32_t length : {0u, 1u, 63u, 1000u}) {
      for (const unsigned slots : {1u, 2u}) {
        const Bytes key = random_bytes(rng, key_length);
        const Bytes data = random_bytes(rng, length);
        const Bytes record = compose({.key = key,
                                      .incarnation = 77,
                                      .capacity = length + 5,
                                      .slots = slots,
                                      .control = {1, 2, 3, 4},
                                      .data = data});
        const RecordView view = examine_record(record, 77, key);
        ASSERT_EQ(view.verdict, Verdict::match);
        EXPECT_EQ(Bytes(view.data.begin(), view.data.end()), data);
        EXPECT_EQ(view.version, 1u);
        EXPECT_EQ(view.header.control, (ControlWords{1, 2, 3, 4}));
        EXPECT_EQ(examine_record(record, 77, std::nullopt).verdict, Verdict::match);
        EXPECT_EQ(examine_record(record, 78, key).verdict, Verdict::stale);
        Bytes other = key;
        other.back() ^= std::byte{1};
        EXPECT_EQ(examine_record(record, 77, other).verdict, Verdict::other_key);
        other = key;
        other.pop_back();
        EXPECT_EQ(examine_record(record, 77, other).verdict, Verdict::other_key);
      }
    }
  }
}

// DG-32: the old data or the new one, whatever part of an update has been done.
TEST(Record, AnUpdateIsSeenWholeOrNotAtAll) {
  sim::Rng rng(test::seed() + 1);
  const Bytes first = random_bytes(rng, 100);
  const Bytes second = random_bytes(rng, 120);
  const Bytes before =
      compose({.key = bytes_of("k"), .incarnation = 5, .capacity = 128, .slots = 2, .data = first});
  Bytes after = before;
  update(after, second, 9);
  // The slot in any order of its bytes, then the word.
  Bytes half = before;
  for (std::size_t i = sizeof(RecordHeader); i < half.size(); ++i) {
    if (rng.chance(50)) half[i] = after[i];
    const RecordView view = examine_record(half, 5, bytes_of("k"));
    ASSERT_EQ(view.verdict, Verdict::match);
    ASSERT_EQ(Bytes(view.data.begin(), view.data.end()), first);
  }
  const RecordView view = examine_record(after, 5, bytes_of("k"));
  ASSERT_EQ(view.verdict, Verdict::match);
  EXPECT_EQ(view.version, 2u);
  EXPECT_EQ(Bytes(view.data.begin(), view.data.end()), second);
}

// DG-30, DG-32: a READ that two updates run through, and bytes changed at any place.
TEST(Record, AMixtureIsNeverAccepted) {
  sim::Rng rng(test::seed() + 2);
  const Bytes first = random_bytes(rng, 64);
  const Bytes third = random_bytes(rng, 64);
  const Bytes before = compose(
      {.key = bytes_of("key"), .incarnation = 5, .capacity = 64, .slots = 2, .data = first});
  Bytes after = before;
  update(after, random_bytes(rng, 64), 9);
  update(after, third, 10);
  // Up to `cut` as it was, the rest as two updates later.
  for (std::size_t cut = 1; cut < before.size(); ++cut) {
    Bytes read = after;
    std::memcpy(read.data(), before.data(), cut);
    const RecordView view = examine_record(read, 5, bytes_of("key"));
    if (view.verdict == Verdict::match) {
      const Bytes data(view.data.begin(), view.data.end());
      EXPECT_TRUE((view.version == 1 && data == first) || (view.version == 3 && data == third));
    } else {
      EXPECT_EQ(view.verdict, Verdict::torn);
    }
  }
  // A bit of what is checked: key, slot header, data.
  for (std::size_t at = sizeof(RecordHeader); at < before.size(); ++at) {
    const std::size_t slot = slot_offset(3, 64, 0);
    const bool padding = at >= sizeof(RecordHeader) + 3 && at < slot;
    const bool reserved =
        at >= slot + offsetof(SlotHeader, reserved) && at < slot + offsetof(SlotHeader, checksum);
    if (padding || reserved || at >= slot + sizeof(SlotHeader) + 64) continue;
    Bytes changed = before;
    changed[at] ^= static_cast<std::byte>(1u << rng.between(0, 7));
    EXPECT_NE(examine_record(changed, 5, bytes_of("key")).verdict, Verdict::match) << at;
  }
}

// DG-30: a slot of another record at the same place never fits.
TEST(Record, ASlotOfAnotherRecordDoesNotFit) {
  const Bytes a = compose({.key = bytes_of("key"),
                           .incarnation = 5,
                           .capacity = 8,
                           .slots = 1,
                           .data = bytes_of("12345678")});
  const Bytes b = compose({.key = bytes_of("key"),
                           .incarnation = 6,
                           .capacity = 8,
                           .slots = 1,
                           .data = bytes_of("12345678")});
  Bytes mixed = a;
  const std::size_t slot = slot_offset(3, 8, 0);
  std::memcpy(mixed.data() + slot, b.data() + slot, mixed.size() - slot);
  EXPECT_EQ(examine_record(mixed, 5, bytes_of("key")).verdict, Verdict::torn);
}

// DG-30: whatever is there, nothing is looked at beyond what was READ.
TEST(Record, AnyBytesAreJudgedWithinTheirLength) {
  sim::Rng rng(test::seed() + 3);
  const Bytes good = compose({.key = bytes_of("key"),
                              .incarnation = 5,
                              .capacity = 200,
                              .slots = 2,
                              .data = bytes_of("value")});
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(good.begin(),
                good.begin() + static_cast<std::ptrdiff_t>(rng.between(0, good.size())));
    for (std::uint64_t changes = rng.between(0, 3); changes > 0 && !bytes.empty(); --changes) {
      bytes[rng.between(0, std::min<std::size_t>(bytes.size(), 120) - 1)] =
          static_cast<std::byte>(rng.next());
    }
    // Exactly as long as what was READ, so that a sanitizer sees the first byte too many.
    const auto exact = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const std::span<const std::byte> read(exact.get(), bytes.size());
    const RecordView view = examine_record(read, 5, bytes_of("key"));
    if (view.verdict == Verdict::match && !view.data.empty()) {
      EXPECT_GE(view.data.data(), read.data());
      EXPECT_LE(view.data.data() + view.data.size(), read.data() + read.size());
    }
  }
}

TEST(Record, ADeadOneIsStale) {
  Bytes record =
      compose({.key = bytes_of("key"), .incarnation = 5, .capacity = 0, .slots = 2, .data = {}});
  RecordHeader header = header_of(record);
  header.word = kDead;
  std::memcpy(record.data(), &header, sizeof header);
  EXPECT_EQ(examine_record(record, 5, bytes_of("key")).verdict, Verdict::stale);
  header.incarnation = 0;
  std::memcpy(record.data(), &header, sizeof header);
  EXPECT_EQ(examine_record(record, 5, bytes_of("key")).verdict, Verdict::stale);
  EXPECT_EQ(examine_record(record, 0, bytes_of("key")).verdict, Verdict::stale);
}

}  // namespace
}  // namespace rockhopper::dag::record_test
