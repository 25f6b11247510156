// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A writer in a thread of its own, at full speed, beside a reader that copies its memory as a
// network adapter does: nothing corrupted is delivered, and nothing is missed without being told
// (PB-5, PB-20 to PB-22); and the writer's path allocates nothing (PB-24).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "apps/publisher/log_follower.h"
#include "apps/publisher/reader.h"
#include "apps/publisher/store.h"
#include "tests/ami/allocations.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher {
namespace {

constexpr std::uint64_t kRing = std::uint64_t{1} << 18;
constexpr std::uint32_t kLongest = 12'000;
constexpr std::size_t kContents = 61;

/// Contents that can be told from each other at full speed: message n has number n % kContents, and
/// its own number in front.
class Contents {
 public:
  explicit Contents(std::uint64_t seed) {
    sim::Rng rng(seed);
    for (auto& bytes : contents_) {
      bytes.resize(rng.between(8, rng.chance(20) ? kLongest : 400));
      rng.fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    }
  }
  /// The number is put into it; one thread at a time.
  [[nodiscard]] std::span<const std::byte> of(std::uint64_t sequence) {
    auto& bytes = contents_[sequence % kContents];
    std::memcpy(bytes.data(), &sequence, sizeof sequence);
    return bytes;
  }

 private:
  std::array<std::vector<std::byte>, kContents> contents_;
};

class Observer final : public Listener {
 public:
  explicit Observer(std::uint64_t seed) : contents_(seed) {}
  void on_message(const Message& message) override {
    const auto expected = contents_.of(message.sequence);
    corrupted += !std::equal(expected.begin(), expected.end(), message.payload.begin(),
                             message.payload.end());
    out_of_order += message.sequence != next;
    next = message.sequence + 1;
    ++delivered;
  }
  void on_lost(std::uint64_t first, std::uint64_t last) override {
    out_of_order += first != next || last < first;
    next = last + 1;
  }
  std::uint64_t next = 0;
  std::uint64_t delivered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t out_of_order = 0;

 private:
  Contents contents_;
};

TEST(StoreThreads, WriterAtFullSpeedCorruptsNothing) {
  const std::uint64_t seed = test::seed();
  const std::uint64_t messages = sim::number_or("ROCKHOPPER_MESSAGES", 500'000);
  test::GuardedMemory memory(store_bytes(kRing));
  auto store = *Store::create(memory.bytes(), {.epoch = 1, .message_max = kLongest});
  const StoreInfo info{.name = "a", .epoch = 1, .ring_bytes = kRing, .message_max = kLongest};
  Observer observer(seed);
  const ReaderConfig config{.start = {.at = Start::At::sequence}, .poll_max_ns = 0};
  Reader reader(config, observer);
  std::vector<std::byte> buffer(Reader::buffer_bytes(info, config));
  reader.set_buffer(buffer);
  ASSERT_TRUE(reader.open(info, 0).has_value());

  const std::uint64_t allocated = sim::forbidden_allocations();
  std::atomic<bool> refused = false;
  std::thread writer([&] {
    Contents contents(seed);
    sim::Rng rng(seed);
    const sim::AllocationsForbidden forbidden;
    for (std::uint64_t sequence = 0; sequence < messages; ++sequence) {
      if (store->append(contents.of(sequence), 0, sequence) != Published::yes) refused = true;
      if (rng.chance(40)) store->commit();
      // At times the reader comes along.
      if (sequence % 4096 == 0) std::this_thread::yield();
    }
    store->commit();
  });
  for (std::uint64_t now_ns = 1; observer.next < messages && !refused; ++now_ns) {
    for (const ReadRequest& request : reader.next_round(now_ns)) {
      std::memcpy(request.to.data(), memory.bytes().data() + request.offset, request.to.size());
    }
    reader.on_round(now_ns);
  }
  writer.join();
  EXPECT_FALSE(refused);
  EXPECT_EQ(observer.next, messages);
  EXPECT_EQ(observer.corrupted, 0u);
  EXPECT_EQ(observer.out_of_order, 0u);
  EXPECT_EQ(sim::forbidden_allocations(), allocated);
  EXPECT_TRUE(memory.intact());
  std::printf("published %zu, delivered %zu, lapped %zu, torn %zu\n",
              static_cast<std::size_t>(messages), static_cast<std::size_t>(observer.delivered),
              static_cast<std::size_t>(reader.counters().lapped.value()),
              static_cast<std::size_t>(reader.counters().invalid_checksum.value() +
                                       reader.counters().invalid_trailer.value() +
                                       reader.counters().invalid_position.value()));
}

// PB-7, PB-13, PB-14, PB-17, PB-20, PB-24: what follows the writer in another thread sends nothing
// that is torn, says what it has skipped, and a reader that gets every second of its copies and
// READs the rest misses nothing; neither allocates.
TEST(StoreThreads, WriterAtFullSpeedBesideItsMulticast) {
  const std::uint64_t seed = test::seed();
  const std::uint64_t messages = sim::number_or("ROCKHOPPER_MESSAGES", 500'000);
  test::GuardedMemory memory(store_bytes(kRing));
  auto store = *Store::create(memory.bytes(), {.epoch = 1, .message_max = kLongest});
  const StoreInfo info{.name = "a", .epoch = 1, .ring_bytes = kRing, .message_max = kLongest};
  Observer observer(seed);
  const ReaderConfig config{.start = {.at = Start::At::sequence}, .poll_max_ns = 100};
  Reader reader(config, observer);
  std::vector<std::byte> buffer(Reader::buffer_bytes(info, config));
  reader.set_buffer(buffer);
  reader.expect_copies(64, 1024);
  ASSERT_TRUE(reader.open(info, 0).has_value());
  LogFollower follower(*store);
  std::atomic<bool> refused = false;
  std::thread writer([&] {
    Contents contents(seed);
    sim::Rng rng(seed);
    for (std::uint64_t sequence = 0; sequence < messages; ++sequence) {
      if (store->publish(contents.of(sequence), 0, sequence) != Published::yes) refused = true;
      if (sequence % 64 == 0) std::this_thread::yield();
    }
  });
  std::array<std::byte, 1024> room;
  std::uint64_t seen = 0;
  std::uint64_t damaged = 0;
  sim::Rng rng(seed + 1);
  const std::uint64_t allocated = sim::forbidden_allocations();
  for (std::uint64_t now_ns = 1; observer.next < messages && !refused; ++now_ns) {
    const sim::AllocationsForbidden forbidden;
    const LogFollower::Step step = follower.next(room);
    seen += follower.take_skipped();
    seen += step == LogFollower::Step::record || step == LogFollower::Step::too_long ? 1 : 0;
    damaged += step == LogFollower::Step::damaged ? 1 : 0;
    if (step == LogFollower::Step::record && rng.chance(50)) {
      reader.on_copy(std::span(room).first(follower.size()), now_ns);
    }
    for (const ReadRequest& request : reader.next_round(now_ns)) {
      std::memcpy(request.to.data(), memory.bytes().data() + request.offset, request.to.size());
    }
    reader.on_round(now_ns);
  }
  writer.join();
  for (auto step = follower.next(room); step != LogFollower::Step::nothing;
       step = follower.next(room)) {
    seen += follower.take_skipped();
    seen += step == LogFollower::Step::record || step == LogFollower::Step::too_long ? 1 : 0;
  }
  EXPECT_FALSE(refused);
  EXPECT_EQ(sim::forbidden_allocations(), allocated);
  EXPECT_EQ(seen, messages);
  EXPECT_EQ(damaged, 0u);
  EXPECT_EQ(observer.next, messages);
  EXPECT_EQ(observer.corrupted, 0u);
  EXPECT_EQ(observer.out_of_order, 0u);
  const CopyCounters& copies = reader.copy_counters();
  EXPECT_EQ(copies.invalid_checksum.value() + copies.invalid_length.value() +
                copies.invalid_sequence.value() + copies.invalid_epoch.value(),
            0u);
  EXPECT_TRUE(memory.intact());
  std::printf("published %zu, delivered %zu, of these from copies %zu\n",
              static_cast<std::size_t>(messages), static_cast<std::size_t>(observer.delivered),
              static_cast<std::size_t>(copies.taken.value()));
}

}  // namespace
}  // namespace rockhopper::publisher
