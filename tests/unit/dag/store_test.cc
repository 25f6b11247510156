// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A server's records without any communication (DG-4, DG-6 to DG-8, DG-20, DG-30, DG-32).
#include "apps/services/dag/store.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag::store_test {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class StoreTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 64 * 1024;
  void make(const StoreConfig& config) { store = *Store::create({lines[0].bytes, kBytes}, config); }
  [[nodiscard]] std::span<std::byte> record(const MapPlace& place) {
    return store->memory().subspan(place.address, place.length);
  }
  [[nodiscard]] RecordHeader header(const MapPlace& place) {
    RecordHeader found;
    std::memcpy(&found, record(place).data(), sizeof found);
    return found;
  }
  /// As if all clients had finished what they had begun.
  void pass_grace(std::uint64_t now_ns) {
    Quarantine& quarantine = store->quarantine();
    if (quarantine.wants_grace()) quarantine.begin_grace();
    if (quarantine.in_grace()) quarantine.end_grace();
    store->collect(now_ns);
  }
  [[nodiscard]] std::string read(std::string_view key) {
    const auto found = store->lookup(bytes_of(key));
    if (found.status != Status::ok) return std::string(to_string(found.status));
    const auto view = examine_record(record(found.place), found.place.incarnation, bytes_of(key));
    return {reinterpret_cast<const char*>(view.data.data()), view.data.size()};
  }

  std::vector<Line> lines = std::vector<Line>(kBytes / 64);
  std::unique_ptr<Store> store;
};

// DG-4, DG-6, DG-8, DG-20: against a model; with few bits of the hash, everything collides.
TEST_F(StoreTest, HasWhatWasCreated) {
  for (const unsigned bits : {1u, 8u, 64u}) {
    sim::Rng rng(test::seed() + bits);
    make({.records = 50, .hash_bits = bits, .capacity_max = 1000, .quarantine_ns = 10});
    std::map<std::string, std::string> model;
    std::uint64_t now_ns = 1;
    std::uint64_t highest = 0;
    for (int i = 0; i < 4'000; ++i, ++now_ns) {
      const std::string key = "key " + std::to_string(rng.between(0, 70));
      const auto known = model.find(key);
      switch (rng.between(0, 3)) {
        case 0: {
          const std::string value(rng.between(0, 400), static_cast<char>('a' + rng.between(0, 25)));
          const auto made =
              store->create({.key = bytes_of(key), .capacity = 500, .data = bytes_of(value)});
          if (known != model.end()) {
            ASSERT_EQ(made.status, Status::exists);
          } else if (made.status == Status::ok) {
            ASSERT_GT(made.place.incarnation, highest);
            highest = made.place.incarnation;
            model.emplace(key, value);
          } else {
            ASSERT_EQ(made.status, Status::exhausted);
          }
          break;
        }
        case 1:
          ASSERT_EQ(store->erase(bytes_of(key), now_ns).status,
                    known == model.end() ? Status::not_found : Status::ok);
          if (known != model.end()) model.erase(known);
          break;
        case 2: {
          const auto moved = store->resize(bytes_of(key), rng.between32(400, 1000), now_ns);
          if (known == model.end()) {
            ASSERT_EQ(moved.status, Status::not_found);
          } else if (moved.status == Status::ok) {
            highest = moved.place.incarnation;
          } else {
            ASSERT_EQ(moved.status, Status::exhausted);
          }
          break;
        }
        default:
          if (known != model.end()) {
            ASSERT_EQ(read(key), known->second);
          }
          break;
      }
      if (rng.chance(20)) pass_grace(now_ns);
      ASSERT_EQ(store->size(), model.size());
    }
    for (const auto& [key, value] : model) {
      EXPECT_EQ(read(key), value);
    }
    for (const auto& [key, value] : model) {
      EXPECT_EQ(store->erase(bytes_of(key), now_ns).status, Status::ok);
    }
    pass_grace(now_ns);
    pass_grace(now_ns + 10);
    EXPECT_EQ(store->free_bytes(), kBytes);
  }
}

// DG-30: what was deleted is dead to who comes late, and its memory rests until both the time and a
// grace period that began later are over.
TEST_F(StoreTest, DeletedMemoryRests) {
  make({.records = 10, .capacity_max = kBytes, .quarantine_ns = 1000});
  const auto big = [&](std::string_view key) {
    return store->create({.key = bytes_of(key), .capacity = 40'000, .slots = 1});
  };
  const auto a = big("a");
  ASSERT_EQ(a.status, Status::ok);
  ASSERT_EQ(store->erase(bytes_of("a"), 5000).status, Status::ok);
  const RecordHeader dead = header(a.place);
  EXPECT_EQ(dead.word, kDead);
  EXPECT_EQ(dead.lock, kDead);
  EXPECT_EQ(dead.incarnation, 0u);
  EXPECT_EQ(big("b").status, Status::exhausted);
  // Time without a grace period.
  store->collect(100'000);
  EXPECT_EQ(big("b").status, Status::exhausted);
  // A grace period without the time.
  pass_grace(5999);
  EXPECT_EQ(big("b").status, Status::exhausted);
  store->collect(6000);
  const auto b = big("b");
  ASSERT_EQ(b.status, Status::ok);
  EXPECT_GT(b.place.incarnation, a.place.incarnation);
  EXPECT_EQ(examine_record(record(b.place), a.place.incarnation, bytes_of("a")).verdict,
            Verdict::stale);
  // A grace period that had begun before does not count.
  ASSERT_EQ(store->erase(bytes_of("b"), 7000).status, Status::ok);
  store->quarantine().begin_grace();
  ASSERT_EQ(store->create({.key = bytes_of("c"), .capacity = 100}).status, Status::ok);
  ASSERT_EQ(store->erase(bytes_of("c"), 7000).status, Status::ok);
  store->quarantine().end_grace();
  store->collect(50'000);
  EXPECT_GT(store->quarantine().bytes(), 0u);
  pass_grace(50'000);
  EXPECT_EQ(store->free_bytes(), kBytes);
}

// DG-32: a writer that is gone gives its locks back, and nobody else's.
TEST_F(StoreTest, LocksOfOneOwnerAreReleased) {
  make({.records = 10, .capacity_max = 100});
  std::map<std::string, MapPlace> places;
  for (const std::string key : {"a", "b", "c"}) {
    places[key] = store->create({.key = bytes_of(key), .capacity = 10}).place;
  }
  const auto lock = [&](const std::string& key, const LockWord& word) {
    const std::uint64_t bits = word.bits();
    std::memcpy(record(places[key]).data() + offsetof(RecordHeader, lock), &bits, sizeof bits);
  };
  lock("a", {.owner = 3, .epoch = 9});
  lock("b", {.owner = 4, .epoch = 9});
  EXPECT_EQ(store->release_locks(3), 1u);
  EXPECT_EQ(header(places["a"]).lock, 0u);
  EXPECT_EQ(header(places["b"]).lock, (LockWord{.owner = 4, .epoch = 9}.bits()));
  EXPECT_EQ(header(places["c"]).lock, 0u);
}

// DG-20, DG-30: records that clients make in memory of their own.
TEST_F(StoreTest, ArenasAreAdoptedFromWithCare) {
  make({.records = 10, .capacity_max = 1000, .quarantine_ns = 0});
  const auto arena = store->allocate_arena(3, 8192);
  ASSERT_EQ(arena.status, Status::ok);
  const auto write = [&](std::uint64_t offset, std::string_view key, std::uint64_t number) {
    const MapPlace place{.incarnation = arena.place.incarnation + number,
                         .address = arena.place.address + offset,
                         .length = static_cast<std::uint32_t>(record_bytes(key.size(), 50, 2))};
    compose_record({.key = bytes_of(key),
                    .incarnation = place.incarnation,
                    .capacity = 50,
                    .data = bytes_of("value")},
                   record(place));
    return place;
  };
  const MapPlace a = write(0, "a", 0);
  const MapPlace b = write(512, "b", 1);
  // Not before it is adopted.
  EXPECT_EQ(store->lookup(bytes_of("a")).status, Status::not_found);
  EXPECT_EQ(store->adopt(4, bytes_of("a"), a).status, Status::invalid);  // not his
  EXPECT_EQ(store->adopt(3, bytes_of("b"), a).status, Status::damaged);  // not what is there
  EXPECT_EQ(store->adopt(3, bytes_of(""), a).status, Status::invalid);
  MapPlace wrong = a;
  wrong.incarnation += 1000;
  EXPECT_EQ(store->adopt(3, bytes_of("a"), wrong).status, Status::invalid);  // not given to him
  wrong = a;
  wrong.length = 8193;
  EXPECT_EQ(store->adopt(3, bytes_of("a"), wrong).status, Status::invalid);
  wrong.length = 200;
  EXPECT_EQ(store->adopt(3, bytes_of("a"), wrong).status, Status::damaged);
  wrong = a;
  wrong.address = kBytes - 64;
  EXPECT_EQ(store->adopt(3, bytes_of("a"), wrong).status, Status::invalid);
  EXPECT_EQ(store->adopt(3, bytes_of("a"), a).status, Status::ok);
  EXPECT_EQ(store->adopt(3, bytes_of("a"), a).status, Status::invalid);  // taken already
  EXPECT_EQ(store->adopt(3, bytes_of("b"), b).status, Status::ok);
  EXPECT_EQ(read("a"), "value");
  // It goes when its owner has given it back and its records are deleted.
  const std::uint64_t free_bytes = store->free_bytes();
  EXPECT_EQ(store->release_arena(4, arena.place.address, 1), Status::not_found);
  EXPECT_EQ(store->release_arena(3, arena.place.address, 1), Status::ok);
  EXPECT_EQ(store->release_arena(3, arena.place.address, 1), Status::not_found);
  EXPECT_EQ(store->erase(bytes_of("a"), 1).status, Status::ok);
  pass_grace(1);
  EXPECT_EQ(store->free_bytes(), free_bytes);
  EXPECT_EQ(read("b"), "value");
  EXPECT_EQ(store->erase(bytes_of("b"), 1).status, Status::ok);
  pass_grace(1);
  EXPECT_EQ(store->free_bytes(), kBytes);
}

// DG-30, DG-36: arenas of a group stay when their owner is gone, and go together; as others do,
// they rest, and their adopted records stay.
TEST_F(StoreTest, ArenasOfAGroupAreReleasedTogether) {
  make({.records = 10, .capacity_max = 1000, .quarantine_ns = 1000});
  constexpr std::uint64_t kArena = 4096;
  const auto allocate = [&](std::uint32_t owner, std::string_view group) {
    const auto made = store->allocate_arena(owner, kArena, bytes_of(group));
    EXPECT_EQ(made.status, Status::ok);
    return made.place;
  };
  const std::string long_group(kKeyMax + 1, 'g');
  EXPECT_EQ(store->allocate_arena(3, kArena, bytes_of(long_group)).status, Status::invalid);
  const MapPlace first = allocate(3, "run");
  const MapPlace second = allocate(4, "run");
  const MapPlace other = allocate(3, "run 2");
  const MapPlace alone = allocate(3, "");
  const MapPlace home = allocate(Store::kHomeOwner, "");
  MapPlace kept = first;
  kept.length = static_cast<std::uint32_t>(record_bytes(1, 50, 1));
  compose_record(
      {.key = bytes_of("k"), .incarnation = kept.incarnation, .capacity = 50, .slots = 1},
      record(kept));
  ASSERT_EQ(store->adopt(3, bytes_of("k"), kept).status, Status::ok);

  // What an owner sees of them.
  const auto seen = store->arena_bytes(3, first.address);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->data(), store->memory().data() + first.address);
  EXPECT_EQ(seen->size(), kArena);
  EXPECT_TRUE(store->arena_bytes(3, first.address, first.incarnation));
  EXPECT_FALSE(store->arena_bytes(3, first.address, first.incarnation + 1));
  EXPECT_FALSE(store->arena_bytes(3, first.address + 64));
  EXPECT_FALSE(store->arena_bytes(3, second.address));

  // The owner goes.
  const auto pass = [&](std::uint64_t now_ns) {
    pass_grace(now_ns);
    return kBytes - store->free_bytes();
  };
  store->release_arenas(3, 5000);
  EXPECT_FALSE(store->arena_bytes(3, alone.address));
  EXPECT_EQ(pass(5999), 5 * kArena);
  EXPECT_EQ(pass(6000), 4 * kArena);
  EXPECT_TRUE(store->arena_bytes(3, other.address));

  EXPECT_EQ(store->release_group(bytes_of("ru"), 7000), 0u);
  EXPECT_EQ(store->release_group({}, 7000), 0u);
  EXPECT_EQ(store->release_group(bytes_of("run"), 7000), 2u);
  EXPECT_EQ(store->release_group(bytes_of("run"), 7000), 0u);
  EXPECT_FALSE(store->arena_bytes(4, second.address));
  EXPECT_FALSE(store->arena_bytes(3, first.address));
  EXPECT_EQ(pass(7999), 4 * kArena);
  EXPECT_EQ(pass(8000), 3 * kArena);
  EXPECT_EQ(store->erase(bytes_of("k"), 9000).status, Status::ok);
  EXPECT_EQ(pass(9999), 3 * kArena);
  EXPECT_EQ(pass(10'000), 2 * kArena);
  EXPECT_EQ(store->release_group(bytes_of("run 2"), 10'000), 1u);
  EXPECT_EQ(store->release_arena(Store::kHomeOwner, home.address, 10'000), Status::ok);
  EXPECT_EQ(pass(11'000), 0u);
}

// Whatever peers write into records, the store stays within its memory and its map.
TEST_F(StoreTest, ScribbledRecordsDoNoHarm) {
  sim::Rng rng(test::seed() + 5);
  make({.records = 40, .capacity_max = 500, .quarantine_ns = 0});
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "key " + std::to_string(rng.between(0, 60));
    switch (rng.between(0, 4)) {
      case 0:
        (void)store->create({.key = bytes_of(key), .capacity = 300});
        break;
      case 1:
        (void)store->erase(bytes_of(key), 1);
        break;
      case 2:
        (void)store->resize(bytes_of(key), rng.between32(0, 500), 1);
        break;
      case 3: {
        const auto found = store->lookup(bytes_of(key));
        if (found.status != Status::ok) break;
        const auto bytes = record(found.place);
        bytes[rng.between(0, std::min<std::size_t>(bytes.size(), 150) - 1)] =
            static_cast<std::byte>(rng.next());
        break;
      }
      default:
        (void)store->release_locks(static_cast<std::uint32_t>(rng.between(0, 5)));
        pass_grace(1);
        break;
    }
    ASSERT_LE(store->size(), 40u);
  }
}

TEST_F(StoreTest, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(Store::create({lines[0].bytes + 8, 4096}, {}));
  EXPECT_FALSE(Store::create({lines[0].bytes, 63}, {}));
  EXPECT_FALSE(Store::create({lines[0].bytes, kBytes}, {.records = 0}));
  EXPECT_FALSE(Store::create({lines[0].bytes, kBytes}, {.hash_bits = 0}));
  EXPECT_FALSE(Store::create({lines[0].bytes, kBytes}, {.hash_bits = 65}));
  EXPECT_FALSE(Store::create({lines[0].bytes, kBytes}, {.capacity_max = kCapacityMax + 1}));
  EXPECT_FALSE(Store::create({lines[0].bytes, kBytes}, {.first_incarnation = 0}));
  make({.records = 2, .capacity_max = 100});
  const std::string long_key(kKeyMax + 1, 'k');
  EXPECT_EQ(store->create({.key = bytes_of("")}).status, Status::invalid);
  EXPECT_EQ(store->create({.key = bytes_of(long_key)}).status, Status::invalid);
  EXPECT_EQ(store->create({.key = bytes_of("a"), .slots = 3}).status, Status::invalid);
  EXPECT_EQ(store->create({.key = bytes_of("a"), .capacity = 101}).status, Status::too_long);
  EXPECT_EQ(store->create({.key = bytes_of("a"), .capacity = 1, .data = bytes_of("ab")}).status,
            Status::too_long);
  EXPECT_EQ(store->create({.key = bytes_of("a")}).status, Status::ok);
  EXPECT_EQ(store->create({.key = bytes_of("b")}).status, Status::ok);
  EXPECT_EQ(store->create({.key = bytes_of("c")}).status, Status::exhausted);
  EXPECT_EQ(store->resize(bytes_of("a"), 101, 1).status, Status::too_long);
  EXPECT_EQ(store->size(), 2u);
}

}  // namespace
}  // namespace rockhopper::dag::store_test
