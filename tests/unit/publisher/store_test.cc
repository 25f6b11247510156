// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The writer of a store (PB-4, PB-20, PB-22, PB-31).
#include "apps/services/publisher/store.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/publisher/judge.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher::store_test {
namespace {

using test::content;
using test::control_of;
using test::GuardedMemory;

constexpr std::uint64_t kRing = 4096;

std::unique_ptr<Store> make(GuardedMemory& memory, const StoreConfig& config) {
  auto store = Store::create(memory.bytes(), config);
  EXPECT_TRUE(store.has_value()) << (store ? "" : store.error().message);
  return store ? std::move(*store) : nullptr;
}

/// Reads a store's memory as subscribers do, without haste: calls `see` with each message from the
/// oldest on. False: something is not valid.
template <typename See>
bool walk(std::span<const std::byte> memory, const See& see) {
  const ControlBlock control = control_of(memory);
  const auto ring = memory.subspan(sizeof(ControlBlock));
  std::uint64_t sequence = control.head_seq;
  std::uint64_t position = control.head_pos;
  while (position < control.tail_pos) {
    const auto rest = ring.subspan(position % ring.size());
    if (rest.size() < Record::kSizeMin) {
      position += rest.size();
      continue;
    }
    const auto [status, record] =
        Record::parse(rest, {.position = position,
                             .epoch = static_cast<std::uint32_t>(control.epoch),
                             .sequence = sequence,
                             .message_max = static_cast<std::uint32_t>(message_max(ring.size()))});
    if (status != RecordStatus::valid) return false;
    if (!record.is_padding()) {
      see(record);
      ++sequence;
    }
    position += record.size;
  }
  return position == control.tail_pos && sequence == control.tail_seq;
}

// PB-4, PB-20: after each of many messages of random length the ring has the newest ones, whole,
// with nothing between, and as many as fit.
TEST(Stores, RingHasTheNewestMessages) {
  const std::uint64_t seed = test::seed();
  GuardedMemory memory(store_bytes(kRing));
  auto store = make(memory, {.id = 3, .epoch = 0x100000007});
  for (std::uint64_t sequence = 0; sequence < 3000; ++sequence) {
    const auto bytes = content(seed, sequence, kRing / 4);
    ASSERT_EQ(store->next_sequence(), sequence);
    ASSERT_EQ(store->publish(bytes, static_cast<std::uint16_t>(sequence), sequence * 10),
              Published::yes);
    std::uint64_t next = store->oldest_sequence();
    ASSERT_TRUE(walk(memory.bytes(),
                     [&](const Record& record) {
                       const auto expected = content(seed, next, kRing / 4);
                       EXPECT_EQ(record.sequence, next);
                       EXPECT_EQ(record.time_ns, next * 10);
                       EXPECT_EQ(record.type, static_cast<std::uint16_t>(next));
                       EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                                              record.payload.begin(), record.payload.end()));
                       ++next;
                     }))
        << "after " << sequence;
    ASSERT_EQ(next, sequence + 1);
    const ControlBlock control = control_of(memory.bytes());
    ASSERT_LE(control.tail_pos - control.head_pos, kRing);
    // No more has been given up than the newest needs: the longest and its padding.
    if (sequence > 500) {
      ASSERT_GE(control.tail_pos - control.head_pos, kRing - Record::size_of(kRing / 4));
    }
  }
  EXPECT_TRUE(memory.intact());
  EXPECT_GT(store->counters().paddings.value(), 0u);
  EXPECT_EQ(store->counters().messages.value(), 3000u);
  EXPECT_EQ(store->counters().evicted.value(), store->oldest_sequence());
}

// PB-22: what a record looked like while it was written is known from one that has the control
// block for a payload: by then what it overwrites had been given up, and it was not shown.
TEST(Stores, HeadIsAnnouncedBeforeAndTailAfter) {
  GuardedMemory memory(store_bytes(kRing));
  auto store = make(memory, {.epoch = 1});
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t position = control_of(memory.bytes()).tail_pos;
    ASSERT_EQ(store->publish(memory.bytes().first(sizeof(ControlBlock)), 0, 0), Published::yes);
    ControlBlock then{};
    std::uint64_t end = 0;
    ASSERT_TRUE(walk(memory.bytes(), [&](const Record& record) {
      std::memcpy(&then, record.payload.data(), sizeof then);
      end = record.position + record.size;
    }));
    EXPECT_GE(then.head_pos + kRing, end) << "overwritten before it was given up";
    EXPECT_EQ(then.tail_pos, position) << "shown before it was complete";
  }
}

// A batch is shown by one step, in order.
TEST(Stores, BatchIsShownAtOnce) {
  const std::uint64_t seed = test::seed();
  GuardedMemory memory(store_bytes(kRing));
  auto store = make(memory, {.epoch = 1});
  for (int batch = 0; batch < 200; ++batch) {
    const ControlBlock before = control_of(memory.bytes());
    for (std::uint64_t i = 0; i < 5; ++i) {
      ASSERT_EQ(store->append(content(seed, i, 200), 0, 0), Published::yes);
      EXPECT_EQ(control_of(memory.bytes()).tail_seq, before.tail_seq);
      EXPECT_EQ(control_of(memory.bytes()).tail_pos, before.tail_pos);
    }
    store->commit();
    EXPECT_EQ(control_of(memory.bytes()).tail_seq, before.tail_seq + 5);
    ASSERT_TRUE(walk(memory.bytes(), [](const Record&) {}));
  }
  EXPECT_EQ(store->counters().commits.value(), 200u);
}

// A batch of more than the ring: what subscribers see is intact at each moment.
TEST(Stores, EndlessBatchIsShownMeanwhile) {
  const std::uint64_t seed = test::seed();
  GuardedMemory memory(store_bytes(kRing));
  auto store = make(memory, {.epoch = 1});
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(store->append(content(seed, i, kRing / 4), 0, 0), Published::yes);
    ASSERT_TRUE(walk(memory.bytes(), [](const Record&) {})) << i;
  }
  store->commit();
  EXPECT_EQ(control_of(memory.bytes()).tail_seq, 2000u);
}

// PB-31: the lengths at the limits.
TEST(Stores, LongestMessageIsAQuarterOfTheRing) {
  GuardedMemory memory(store_bytes(kRing));
  auto store = make(memory, {.epoch = 1});
  EXPECT_EQ(store->message_max(), kRing / 4);
  std::vector<std::size_t> taken;
  for (const std::size_t length : {kRing / 4, kRing / 4 + 1, std::uint64_t{0}, std::uint64_t{1}}) {
    const std::vector<std::byte> bytes(length, std::byte{7});
    const auto before = control_of(memory.bytes());
    const Published published = store->publish(bytes, 0, 0);
    EXPECT_EQ(published, length > kRing / 4 ? Published::too_long : Published::yes);
    if (published == Published::yes) taken.push_back(length);
    if (published == Published::too_long) {
      EXPECT_EQ(control_of(memory.bytes()).tail_pos, before.tail_pos);
    }
  }
  std::vector<std::size_t> seen;
  EXPECT_TRUE(
      walk(memory.bytes(), [&](const Record& record) { seen.push_back(record.payload.size()); }));
  EXPECT_EQ(seen, taken);
  EXPECT_EQ(store->counters().refused_too_long.value(), 1u);
}

TEST(Stores, OwnLimitIsKept) {
  GuardedMemory memory(store_bytes(kRing));
  auto store = make(memory, {.epoch = 1, .message_max = 100});
  EXPECT_EQ(store->publish(std::vector<std::byte>(100), 0, 0), Published::yes);
  EXPECT_EQ(store->publish(std::vector<std::byte>(101), 0, 0), Published::too_long);
}

TEST(Stores, BadMemoryIsRefused) {
  GuardedMemory memory(store_bytes(2 * kRing));
  const auto refused = [](std::span<std::byte> bytes, const StoreConfig& config) {
    return !Store::create(bytes, config).has_value();
  };
  EXPECT_TRUE(refused({}, {.epoch = 1}));
  EXPECT_TRUE(refused(memory.bytes().first(63), {.epoch = 1}));
  EXPECT_TRUE(refused(memory.bytes().first(store_bytes(2048)), {.epoch = 1})) << "too small";
  EXPECT_TRUE(refused(memory.bytes().first(store_bytes(kRing) - 1), {.epoch = 1}));
  EXPECT_TRUE(refused(memory.bytes().subspan(8, store_bytes(kRing)), {.epoch = 1})) << "unaligned";
  EXPECT_TRUE(refused(memory.bytes(), {.epoch = std::uint64_t{1} << 32}));
  EXPECT_TRUE(refused(memory.bytes(), {.epoch = 1, .message_max = 2 * kRing / 4 + 1}));
  EXPECT_FALSE(refused(memory.bytes(), {.epoch = 1}));
}

// PB-19.
TEST(Stores, HeartbeatIsInTheControlBlock) {
  GuardedMemory memory(store_bytes(kRing));
  auto store = make(memory, {.epoch = 1});
  store->heartbeat(123456789);
  EXPECT_EQ(control_of(memory.bytes()).heartbeat_ns, 123456789u);
}

// PB-29: what is watched changes when something is shown, and then only.
TEST(Stores, TailIsThatOfWhatIsShown) {
  GuardedMemory memory(store_bytes(kRing));
  auto store = make(memory, {.epoch = 77});
  const StoreTail empty = store->tail();
  EXPECT_EQ(empty.epoch, 77u);
  EXPECT_EQ(store->append({}, 0, 0), Published::yes);
  store->heartbeat(5);
  EXPECT_EQ(store->tail(), empty);
  store->commit();
  EXPECT_EQ(store->tail().position, control_of(memory.bytes()).tail_pos);
  EXPECT_NE(store->tail(), empty);
}

}  // namespace
}  // namespace rockhopper::publisher::store_test
