// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Stores with the latest message of each key.
#include "apps/services/publisher/conflated_store.h"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/publisher/slot.h"
#include "tests/publisher/judge.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher {
namespace {

using test::content;
using test::control_of;
using test::GuardedMemory;

constexpr ConflatedStore::Config kConfig{.id = 2, .epoch = 9, .keys = 40, .message_max = 100};

std::span<const std::byte> slot_of(std::span<const std::byte> store, std::size_t index) {
  const std::size_t bytes = Slot::size_of(kConfig.message_max);
  return store.subspan(sizeof(ControlBlock) + index * bytes, bytes);
}

// A model with a map: each key has its latest message, and no other.
TEST(ConflatedStores, EachKeyHasItsLatestMessage) {
  const std::uint64_t seed = test::seed();
  sim::Rng rng(seed);
  GuardedMemory memory(ConflatedStore::bytes_for(kConfig));
  auto store = *ConflatedStore::create(memory.bytes(), kConfig);
  std::map<std::uint64_t, std::uint64_t> latest;
  std::uint64_t changes = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t key = rng.between(0, 45) * 0x100000000;
    const Published published =
        store->publish(key, content(seed, changes, kConfig.message_max), 5, changes);
    if (latest.size() == kConfig.keys && latest.count(key) == 0) {
      ASSERT_EQ(published, Published::no_slot);
      continue;
    }
    ASSERT_EQ(published, Published::yes);
    latest[key] = changes++;
  }
  EXPECT_EQ(store->keys(), latest.size());
  EXPECT_EQ(store->next_sequence(), changes);
  const ControlBlock control = control_of(memory.bytes());
  EXPECT_EQ(control.layout, layout_of(StoreKind::conflated));
  EXPECT_EQ(control.tail_seq, changes);
  EXPECT_EQ(control.tail_pos, latest.size() * Slot::size_of(kConfig.message_max));
  EXPECT_EQ(control.head_pos, Slot::size_of(kConfig.message_max));
  std::map<std::uint64_t, std::uint64_t> seen;
  for (std::size_t i = 0; i < kConfig.keys; ++i) {
    const auto [status, slot] = Slot::parse(slot_of(memory.bytes(), i), 9, kConfig.message_max);
    ASSERT_EQ(status, i < latest.size() ? Slot::Status::valid : Slot::Status::empty);
    if (status != Slot::Status::valid) continue;
    seen[slot.key] = slot.change;
    const auto expected = content(seed, slot.change, kConfig.message_max);
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), slot.payload.begin(), slot.payload.end()));
    EXPECT_EQ(slot.time_ns, slot.change);
    EXPECT_EQ(slot.type, 5u);
  }
  EXPECT_EQ(seen, latest);
  EXPECT_TRUE(memory.intact());
  EXPECT_GT(store->counters().refused_no_slot.value(), 0u);
}

// A message that is a slot's own bytes shows what they were like while it was written.
TEST(ConflatedStores, SlotIsMarkedWhileItIsWritten) {
  GuardedMemory memory(ConflatedStore::bytes_for(kConfig));
  auto store = *ConflatedStore::create(memory.bytes(), kConfig);
  ASSERT_EQ(store->publish(7, {}, 0, 0), Published::yes);
  const auto version = slot_of(memory.bytes(), 0).first(8);
  ASSERT_EQ(load_le<std::uint64_t>(version.data()), 2u);
  ASSERT_EQ(store->publish(7, version, 0, 0), Published::yes);
  const auto [status, slot] = Slot::parse(slot_of(memory.bytes(), 0), 9, kConfig.message_max);
  ASSERT_EQ(status, Slot::Status::valid);
  EXPECT_EQ(load_le<std::uint64_t>(slot.payload.data()), 3u);
  EXPECT_EQ(slot.version, 4u);
}

TEST(ConflatedStores, SlotsThatAreNotWholeAreSeen) {
  GuardedMemory memory(ConflatedStore::bytes_for(kConfig));
  auto store = *ConflatedStore::create(memory.bytes(), kConfig);
  ASSERT_EQ(store->publish(7, content(test::seed(), 1, 100), 0, 0), Published::yes);
  const auto whole = slot_of(memory.bytes(), 0);
  std::vector<std::byte> bytes(whole.begin(), whole.end());
  const auto status = [&] { return Slot::parse(bytes, 9, kConfig.message_max).status; };
  EXPECT_EQ(status(), Slot::Status::valid);
  EXPECT_EQ(Slot::parse(bytes, 8, kConfig.message_max).status, Slot::Status::wrong);
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(status(), Slot::Status::being_written);
  bytes[0] ^= std::byte{1};
  for (std::size_t at = 8; at < 48; ++at) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_EQ(status(), Slot::Status::wrong) << at;
    bytes[at] ^= std::byte{0x10};
  }
  EXPECT_EQ(Slot::parse(std::span(bytes).first(47), 9, 100).status, Slot::Status::wrong);
}

TEST(ConflatedStores, BadConfigurationsAreRefused) {
  GuardedMemory memory(ConflatedStore::bytes_for(kConfig));
  EXPECT_EQ(ConflatedStore::bytes_for({.keys = 0}), 0u);
  EXPECT_EQ(ConflatedStore::bytes_for({.keys = ConflatedStore::kMaxKeys + 1}), 0u);
  EXPECT_EQ(ConflatedStore::bytes_for({.keys = 1, .message_max = Slot::kPayloadMax + 1}), 0u);
  auto other = kConfig;
  other.epoch = 0;
  EXPECT_FALSE(ConflatedStore::create(memory.bytes(), other).has_value());
  EXPECT_FALSE(ConflatedStore::create(memory.bytes().subspan(64), kConfig).has_value());
  EXPECT_TRUE(ConflatedStore::create(memory.bytes(), kConfig).has_value());
}

// PB-31.
TEST(ConflatedStores, LongMessagesAreRefused) {
  GuardedMemory memory(ConflatedStore::bytes_for(kConfig));
  auto store = *ConflatedStore::create(memory.bytes(), kConfig);
  EXPECT_EQ(store->publish(1, std::vector<std::byte>(100), 0, 0), Published::yes);
  EXPECT_EQ(store->publish(1, std::vector<std::byte>(101), 0, 0), Published::too_long);
}

}  // namespace
}  // namespace rockhopper::publisher
