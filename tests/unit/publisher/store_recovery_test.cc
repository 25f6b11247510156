// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Stores that go on with what an earlier writer has left (PB-27).
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/publisher/store.h"
#include "tests/publisher/judge.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher::store_recovery_test {
namespace {

using test::content;
using test::control_of;
using test::GuardedMemory;

constexpr std::uint64_t kRing = 8192;
constexpr std::uint32_t kLongest = 1000;
constexpr StoreConfig kFirst{.id = 4, .epoch = 11};
constexpr StoreConfig kSecond{.id = 4, .epoch = 12};

/// A store after that many messages, and its writer gone.
GuardedMemory left_by(std::uint64_t messages, std::uint64_t seed) {
  GuardedMemory memory(store_bytes(kRing));
  auto store = *Store::create(memory.bytes(), kFirst);
  for (std::uint64_t i = 0; i < messages; ++i) {
    EXPECT_EQ(store->publish(content(seed, i, kLongest), 0, i), Published::yes);
  }
  return memory;
}

ControlBlock& control_in(GuardedMemory& memory) {
  return *reinterpret_cast<ControlBlock*>(memory.bytes().data());
}

/// The place of a message's record in the ring.
std::byte* record_of(GuardedMemory& memory, std::uint64_t sequence) {
  const auto ring = memory.bytes().subspan(sizeof(ControlBlock));
  for (std::size_t at = 0; at + Record::kSizeMin <= ring.size(); at += kRecordAlignment) {
    if (load_le<std::uint64_t>(ring.data() + at) % kRing == at &&
        load_le<std::uint64_t>(ring.data() + at + 8) == sequence &&
        load_le<std::uint64_t>(ring.data() + at) + kRing >= control_of(memory.bytes()).tail_pos &&
        load_le<std::uint16_t>(ring.data() + at + 34) == 0) {
      return ring.data() + at;
    }
  }
  return nullptr;
}

void expect_content(const Store& store, std::uint64_t seed) {
  const ControlBlock control = control_of(store.memory());
  const auto ring = store.memory().subspan(sizeof(ControlBlock));
  std::uint64_t sequence = store.oldest_sequence();
  for (std::uint64_t position = control.head_pos; position < control.tail_pos;) {
    const auto rest = ring.subspan(position % kRing);
    if (rest.size() < Record::kSizeMin) {
      position += rest.size();
      continue;
    }
    const auto [status, record] =
        Record::parse(rest, {.position = position,
                             .epoch = static_cast<std::uint32_t>(store.epoch()),
                             .sequence = sequence,
                             .message_max = kRing / 4});
    ASSERT_EQ(status, RecordStatus::valid) << to_string(status) << ", message " << sequence;
    if (!record.is_padding()) {
      const auto expected = content(seed, sequence, kLongest);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), record.payload.begin(),
                             record.payload.end()));
      ++sequence;
    }
    position += record.size;
  }
  EXPECT_EQ(sequence, store.next_sequence());
}

// PB-27: a writer that was killed between messages is continued under the same epoch.
TEST(StoreRecovery, GoesOnWhereItWas) {
  const std::uint64_t seed = test::seed();
  for (const std::uint64_t messages : {0u, 1u, 5u, 100u, 1000u}) {
    GuardedMemory memory = left_by(messages, seed);
    const ControlBlock before = control_of(memory.bytes());
    auto recovered = Store::recover(memory.bytes(), kSecond);
    ASSERT_TRUE(recovered.has_value()) << recovered.error().message;
    Store& store = *recovered->store;
    EXPECT_EQ(recovered->cut, 0u);
    EXPECT_EQ(store.epoch(), kFirst.epoch);
    EXPECT_EQ(store.next_sequence(), messages);
    EXPECT_EQ(recovered->messages, messages - before.head_seq);
    expect_content(store, seed);
    for (std::uint64_t i = messages; i < messages + 300; ++i) {
      ASSERT_EQ(store.publish(content(seed, i, kLongest), 0, i), Published::yes);
    }
    expect_content(store, seed);
    EXPECT_TRUE(memory.intact());
  }
}

// PB-27: of number and position of head and tail the one may have been written and the other not.
TEST(StoreRecovery, HalfWrittenControlBlockIsNoMatter) {
  const std::uint64_t seed = test::seed();
  GuardedMemory memory = left_by(500, seed);
  ++control_in(memory).head_seq;
  control_in(memory).tail_seq += 3;
  auto recovered = Store::recover(memory.bytes(), kSecond);
  ASSERT_TRUE(recovered.has_value()) << recovered.error().message;
  EXPECT_EQ(recovered->cut, 0u);
  EXPECT_EQ(recovered->store->next_sequence(), 500u);
  expect_content(*recovered->store, seed);
}

// PB-27: what had been shown and is torn is cut, and its numbers are given again in a new epoch
// only.
TEST(StoreRecovery, TornEndIsCut) {
  const std::uint64_t seed = test::seed();
  for (const std::uint64_t torn : {1u, 2u, 3u}) {
    GuardedMemory memory = left_by(500, seed);
    std::byte* record = record_of(memory, 500 - torn);
    ASSERT_NE(record, nullptr);
    record[36] ^= std::byte{1};
    auto recovered = Store::recover(memory.bytes(), kSecond);
    ASSERT_TRUE(recovered.has_value()) << recovered.error().message;
    EXPECT_EQ(recovered->cut, torn);
    EXPECT_EQ(recovered->store->epoch(), kSecond.epoch);
    EXPECT_EQ(recovered->store->next_sequence(), 500 - torn);
    expect_content(*recovered->store, seed);
    for (std::uint64_t i = 500 - torn; i < 800; ++i) {
      ASSERT_EQ(recovered->store->publish(content(seed, i, kLongest), 0, i), Published::yes);
    }
    expect_content(*recovered->store, seed);
  }
}

TEST(StoreRecovery, AllTornLeavesAnEmptyStore) {
  GuardedMemory memory = left_by(500, test::seed());
  const std::uint64_t oldest = control_of(memory.bytes()).head_seq;
  std::byte* record = record_of(memory, oldest);
  ASSERT_NE(record, nullptr);
  record[36] ^= std::byte{1};
  auto recovered = Store::recover(memory.bytes(), kSecond);
  ASSERT_TRUE(recovered.has_value());
  EXPECT_EQ(recovered->messages, 0u);
  EXPECT_EQ(recovered->cut, 500 - oldest);
  EXPECT_EQ(recovered->store->next_sequence(), oldest);
}

TEST(StoreRecovery, OtherMemoryIsRefused) {
  const auto refused = [](auto change, const StoreConfig& config = kSecond) {
    GuardedMemory memory = left_by(50, test::seed());
    change(control_in(memory));
    return !Store::recover(memory.bytes(), config).has_value();
  };
  EXPECT_FALSE(refused([](ControlBlock&) {}));
  EXPECT_TRUE(refused([](ControlBlock& control) { control.magic = 0; }));
  EXPECT_TRUE(refused([](ControlBlock& control) { control.layout += 0x100; })) << "PB-30";
  EXPECT_TRUE(refused([](ControlBlock& control) { control.store_id = 5; }));
  EXPECT_TRUE(refused([](ControlBlock& control) { control.ring_bytes /= 2; }));
  EXPECT_TRUE(refused([](ControlBlock& control) { control.epoch = 0; }));
  EXPECT_TRUE(refused([](ControlBlock& control) { control.head_pos = control.tail_pos + 32; }));
  EXPECT_TRUE(refused([](ControlBlock& control) { control.tail_pos += 2 * kRing; }));
  EXPECT_TRUE(refused([](ControlBlock& control) { control.head_pos += 8; }));
}

// Control blocks and rings of anything: recovered or refused, and what follows is a store.
TEST(StoreRecovery, AnyBytesAreTaken) {
  const std::uint64_t seed = test::seed();
  sim::Rng rng(seed);
  for (int i = 0; i < 200; ++i) {
    GuardedMemory memory = left_by(300, seed);
    for (std::uint64_t damage = rng.between(1, 20); damage > 0; --damage) {
      const std::uint64_t limit = rng.chance(30) ? sizeof(ControlBlock) : store_bytes(kRing);
      memory.bytes()[rng.between(0, limit - 1)] = static_cast<std::byte>(rng.next());
    }
    auto recovered = Store::recover(memory.bytes(), kSecond);
    if (!recovered) continue;
    for (std::uint64_t k = 0; k < 100; ++k) {
      ASSERT_EQ(recovered->store->publish(content(seed, k, kLongest), 0, k), Published::yes);
    }
    ASSERT_TRUE(memory.intact());
  }
}

}  // namespace
}  // namespace rockhopper::publisher::store_recovery_test
