// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A subscriber's side of a store with the latest message of each key (PB-5, PB-19, PB-20, PB-27,
// PB-28, PB-32).
#include "apps/services/publisher/conflated_reader.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/publisher/conflated_store.h"
#include "tests/publisher/judge.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher::conflated_reader_test {
namespace {

using test::content;
using test::GuardedMemory;

constexpr std::uint32_t kLongest = 500;
constexpr std::uint32_t kKeys = 30;
constexpr std::uint64_t kHeartbeatNs = 1'000'000;
/// READs see so many bytes as they are at one moment.
constexpr std::size_t kPiece = 32;

struct Rig final : Listener {
  explicit Rig(const ReaderConfig& config = {})
      : memory(ConflatedStore::bytes_for(store_config(7))), reader(config, *this) {
    start_store(7);
    info = {.id = 1,
            .layout = layout_of(StoreKind::conflated),
            .name = "c",
            .epoch = 7,
            .ring_bytes = memory.bytes().size() - sizeof(ControlBlock),
            .message_max = kLongest,
            .heartbeat_ns = kHeartbeatNs};
    buffer.resize(ConflatedReader::buffer_bytes(info, config));
    reader.set_buffer(buffer);
    const auto opened = reader.open(info, now_ns);
    EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().message);
  }
  static ConflatedStore::Config store_config(std::uint64_t epoch) {
    return {.id = 1, .epoch = epoch, .keys = kKeys, .message_max = kLongest};
  }
  void start_store(std::uint64_t new_epoch) {
    store = *ConflatedStore::create(memory.bytes(), store_config(new_epoch));
    model.clear();
  }
  void publish(std::uint64_t key) {
    const std::uint64_t change = store->next_sequence();
    ASSERT_EQ(store->publish(key, content(seed + store->epoch(), change, kLongest), 0, change),
              Published::yes);
    model[key] = change;
  }

  void on_message(const Message& message) override {
    const auto expected = content(seed + message.epoch, message.sequence, kLongest);
    corrupted += !std::equal(expected.begin(), expected.end(), message.payload.begin(),
                             message.payload.end());
    const auto before = seen.find(message.key);
    out_of_order += before != seen.end() && before->second >= message.sequence;
    wrong_epoch += message.epoch != epoch;
    seen[message.key] = message.sequence;
    ++messages;
  }
  void on_lost(std::uint64_t, std::uint64_t) override { ++out_of_order; }
  void on_restart(std::uint64_t, std::uint64_t new_epoch) override {
    epoch = new_epoch;
    seen.clear();
    ++restarts;
  }

  bool round() {
    if (beats) store->heartbeat(now_ns);
    reader.tick(now_ns);
    for (const ReadRequest& request : reader.next_round(now_ns)) {
      EXPECT_LE(request.offset + request.to.size(), memory.bytes().size());
      for (std::size_t at = 0; at < request.to.size(); at += kPiece) {
        const std::size_t length = std::min(kPiece, request.to.size() - at);
        std::memcpy(request.to.data() + at, memory.bytes().data() + request.offset + at, length);
        if (meanwhile) meanwhile();
      }
    }
    reader.on_round(now_ns);
    return true;
  }
  void rounds(int count) {
    for (; count > 0; --count) {
      now_ns = std::max(now_ns, reader.next_deadline_ns());
      round();
    }
  }

  std::uint64_t seed = test::seed();
  GuardedMemory memory;
  std::unique_ptr<ConflatedStore> store;
  std::map<std::uint64_t, std::uint64_t> model;  ///< the latest change of each key
  ConflatedReader reader;
  StoreInfo info;
  std::vector<std::byte> buffer;
  std::uint64_t now_ns = 1'000'000'000;
  bool beats = true;
  std::function<void()> meanwhile;
  std::map<std::uint64_t, std::uint64_t> seen;
  std::uint64_t messages = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t out_of_order = 0;
  std::uint64_t wrong_epoch = 0;
  std::uint64_t epoch = 7;
  unsigned restarts = 0;
};

constexpr ReaderConfig kOldest{.start = {.at = Start::At::oldest}};

// PB-5, PB-20: slots that change while they are READ are never delivered half, and in the end each
// key has its latest message.
TEST(ConflatedReaders, LatestOfEachKeyIsDelivered) {
  for (const std::uint32_t batch : {1u, 4096u, 1u << 20}) {
    Rig rig({.start = {.at = Start::At::oldest}, .batch_bytes = batch});
    sim::Rng rng(rig.seed);
    rig.meanwhile = [&] {
      if (rng.chance(30)) rig.publish(rng.between(0, kKeys - 1));
    };
    rig.rounds(2000);
    rig.meanwhile = nullptr;
    rig.rounds(200);
    EXPECT_EQ(rig.seen, rig.model);
    EXPECT_EQ(rig.corrupted + rig.out_of_order + rig.wrong_epoch, 0u);
    EXPECT_EQ(rig.reader.state(), ReaderState::live);
    EXPECT_GT(rig.reader.counters().invalid_checksum.value(), 0u) << "nothing was torn";
    EXPECT_TRUE(rig.memory.intact());
  }
}

TEST(ConflatedReaders, NothingIsDeliveredTwice) {
  Rig rig(kOldest);
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    rig.publish(key);
  }
  rig.rounds(20);
  EXPECT_EQ(rig.messages, kKeys);
  rig.publish(3);
  rig.rounds(20);
  EXPECT_EQ(rig.messages, kKeys + 1);
}

// PB-27.
TEST(ConflatedReaders, EpochsAreNeverMixed) {
  Rig rig(kOldest);
  sim::Rng rng(rig.seed);
  std::uint64_t epoch = 7;
  rig.meanwhile = [&] {
    if (rng.chance(1)) rig.start_store(++epoch);
    if (rng.chance(30)) rig.publish(rng.between(0, kKeys - 1));
  };
  rig.rounds(2000);
  rig.meanwhile = nullptr;
  rig.rounds(200);
  EXPECT_GT(rig.restarts, 3u);
  EXPECT_EQ(rig.seen, rig.model);
  EXPECT_EQ(rig.corrupted + rig.out_of_order + rig.wrong_epoch, 0u);
}

// PB-32.
TEST(ConflatedReaders, BeginsWhereItIsTold) {
  const auto delivered = [](const Start& start) {
    Rig rig({.start = start});
    for (std::uint64_t key = 0; key < 10; ++key) {
      rig.publish(key);
    }
    rig.rounds(10);
    rig.publish(20);
    rig.rounds(10);
    return rig.messages;
  };
  EXPECT_EQ(delivered({.at = Start::At::oldest}), 11u);
  EXPECT_EQ(delivered({.at = Start::At::tail}), 1u);
  EXPECT_EQ(delivered({.at = Start::At::sequence, .value = 8}), 3u);
  EXPECT_EQ(delivered({.at = Start::At::time, .value = 6}), 5u) << "change n has the time n";
}

// PB-19.
TEST(ConflatedReaders, MissingHeartbeatsAreADeath) {
  Rig rig(kOldest);
  rig.rounds(100);
  EXPECT_EQ(rig.reader.counters().deaths.value(), 0u);
  rig.beats = false;
  rig.rounds(100);
  EXPECT_EQ(rig.reader.state(), ReaderState::publisher_dead);
  rig.beats = true;
  rig.rounds(5);
  EXPECT_EQ(rig.reader.state(), ReaderState::live);
}

// A writer that was killed within a slot: the others are delivered, and the READs get fewer
// (PB-28).
TEST(ConflatedReaders, HalfWrittenSlotIsNoFlood) {
  Rig rig({.start = {.at = Start::At::oldest}, .poll_max_ns = 100'000});
  for (std::uint64_t key = 0; key < 10; ++key) {
    rig.publish(key);
  }
  rig.memory.bytes()[sizeof(ControlBlock) + 2 * Slot::size_of(kLongest)] ^= std::byte{1};
  rig.rounds(100);
  EXPECT_EQ(rig.messages, 9u);
  const std::uint64_t before_ns = rig.now_ns;
  rig.rounds(100);
  EXPECT_GE(rig.now_ns - before_ns, 50 * 100'000u);
}

// PB-29: each key has its latest message before the store is watched, though of a control block the
// one half may be older than the other.
TEST(ConflatedReaders, HalfAControlBlockIsNoRest) {
  for (int run = 0; run < 200; ++run) {
    Rig rig({.start = {.at = Start::At::oldest}, .watch = true});
    sim::Rng rng(rig.seed + static_cast<std::uint64_t>(run));
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      std::uint64_t left = rng.between(1, 2);
      // The last one is of a key that has no slot yet.
      const auto publish = [&] {
        if (left > 0) rig.publish(--left == 0 ? key : rng.between(0, key));
      };
      rig.meanwhile = [&] {
        if (rng.chance(50)) publish();
      };
      for (int round = 0; round < 200; ++round) {
        const auto known = rig.reader.next_watch();
        if (known && left == 0 && *known == rig.store->tail()) break;
        if (known) {
          publish();
          rig.reader.on_watch();
          ASSERT_TRUE(rig.reader.on_tail(rig.store->tail(), rig.now_ns));
        }
        rig.rounds(1);
      }
      ASSERT_EQ(rig.seen, rig.model) << "key " << key;
    }
    EXPECT_EQ(rig.corrupted + rig.out_of_order, 0u);
  }
}

TEST(ConflatedReaders, OtherStoresAreRefused) {
  Rig rig;
  const auto refused = [&](auto change) {
    StoreInfo info = rig.info;
    change(info);
    ConflatedReader reader({}, rig);
    reader.set_buffer(rig.buffer);
    return !reader.open(info, 0).has_value();
  };
  EXPECT_FALSE(refused([](StoreInfo&) {}));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.layout = layout_of(StoreKind::log); }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.ring_bytes -= 1; }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.ring_bytes = 0; }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.message_max = UINT32_MAX; }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.ring_bytes <<= 32; }));
}

// Nothing that a store's memory may have leads out of it, nor out of the buffer (AddressSanitizer).
TEST(ConflatedReaders, AnyMemoryIsTaken) {
  sim::Rng rng(test::seed());
  for (int run = 0; run < 100; ++run) {
    Rig rig(kOldest);
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      rig.publish(key);
    }
    rig.meanwhile = [&] {
      if (rng.chance(70)) return;
      auto bytes = rig.memory.bytes();
      const std::uint64_t limit = rng.chance(50) ? sizeof(ControlBlock) : bytes.size();
      store_le(bytes.data() + rng.between(0, limit - 8) / 8 * 8,
               rng.pick<std::uint64_t>({rng.next(), rng.between(0, 20'000) / 64 * 64, 0}));
    };
    for (int i = 0; i < 60; ++i) {
      rig.now_ns += 100'000;
      rig.round();
    }
    ASSERT_EQ(rig.corrupted, 0u);
  }
}

}  // namespace
}  // namespace rockhopper::publisher::conflated_reader_test
