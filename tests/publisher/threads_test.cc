// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Writers in threads of their own, at full speed, beside readers that copy their memory as a
// network adapter does: nothing corrupted is delivered, and nothing is missed without being told
// (PB-2 to PB-5, PB-10, PB-11, PB-20 to PB-22); and the writers' path allocates nothing and makes
// no system call (PB-7, PB-24).
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apps/services/publisher/log_follower.h"
#include "apps/services/publisher/reader.h"
#include "apps/services/publisher/store.h"
#include "tests/ami/allocations.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher {
namespace {

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
  explicit Observer(Contents& contents) : contents_(contents) {}
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
    lost += last - first + 1;
    next = last + 1;
  }
  std::uint64_t next = 0;
  std::uint64_t delivered = 0;
  std::uint64_t lost = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t out_of_order = 0;

 private:
  Contents& contents_;
};

/// A store, and what its writer and its readers expect in it.
struct Written {
  Written(std::uint16_t id, std::uint64_t contents_seed, std::uint64_t ring_bytes)
      : seed(contents_seed + id),
        memory(store_bytes(ring_bytes)),
        store(*Store::create(memory.bytes(), {.id = id, .epoch = 1, .message_max = kLongest})),
        info{.id = id, .name = "a", .epoch = 1, .ring_bytes = ring_bytes, .message_max = kLongest},
        expected(seed) {}

  std::uint64_t seed;
  test::GuardedMemory memory;
  std::unique_ptr<Store> store;
  StoreInfo info;
  Contents expected;  ///< the readers'
};

/// How a network brings a round's READs: in order; or, where packets are lost and come again,
/// records behind their control block, and parts of them once more.
enum class Network { in_order, repeating };

class Subscriber {
 public:
  Subscriber(Written& written, Network network, std::uint64_t turns_per_round, std::uint64_t seed)
      : written_(written),
        network_(network),
        turns_per_round_(turns_per_round),
        rng_(seed),
        observer_(written.expected),
        reader_(kConfig, observer_),
        buffer_(Reader::buffer_bytes(written.info, kConfig)) {
    reader_.set_buffer(buffer_);
    EXPECT_TRUE(reader_.open(written.info, 0).has_value());
  }

  /// A round, if it is its turn.
  void turn(std::uint64_t number) {
    if (number % turns_per_round_ != 0) return;
    const auto round = reader_.next_round(number);
    if (round.empty()) return;
    const std::size_t records = round.size() - 1;
    if (network_ == Network::in_order) {
      for (const ReadRequest& request : round) {
        copy(request);
      }
    } else {
      copy(round[records]);
      for (const ReadRequest& request : round.first(records)) {
        copy(request);
      }
      for (int again = 0; records > 0 && again < kAgain; ++again) {
        copy_again(round[rng_.between(0, records - 1)]);
      }
    }
    reader_.on_round(number);
  }
  void hurry() { turns_per_round_ = 1; }
  [[nodiscard]] const Observer& observer() const { return observer_; }
  [[nodiscard]] const ReaderCounters& counters() const { return reader_.counters(); }

 private:
  static constexpr ReaderConfig kConfig{.start = {.at = Start::At::sequence}, .poll_max_ns = 0};
  static constexpr std::size_t kPacket = 256;
  static constexpr int kAgain = 8;

  /// Now and then the writer has the processor halfway, which it would hardly get on a machine
  /// where the two share one.
  void copy(const ReadRequest& request) {
    const std::size_t half = request.to.size() / 2;
    const std::byte* from = written_.memory.bytes().data() + request.offset;
    std::memcpy(request.to.data(), from, half);
    if (rng_.chance(5)) std::this_thread::yield();
    std::memcpy(request.to.data() + half, from + half, request.to.size() - half);
  }
  void copy_again(const ReadRequest& request) {
    const std::size_t at = rng_.between(0, (request.to.size() - 1) / kPacket) * kPacket;
    const std::size_t length = std::min(kPacket, request.to.size() - at);
    copy({.offset = request.offset + at, .to = request.to.subspan(at, length)});
  }

  Written& written_;
  Network network_;
  std::uint64_t turns_per_round_;
  sim::Rng rng_;
  Observer observer_;
  Reader reader_;
  std::vector<std::byte> buffer_;
};

/// Writes so many messages, most of them as fast as it can, some in step with the readers, whose
/// turns are counted: there, records are read that are about to be overwritten.
void write(Written& written, std::uint64_t messages, const std::atomic<std::uint64_t>& turns,
           std::atomic<bool>& refused) {
  Contents contents(written.seed);
  sim::Rng rng(written.seed);
  const sim::AllocationsForbidden forbidden;
  std::uint64_t in_step = 0;
  for (std::uint64_t sequence = 0; sequence < messages; ++sequence) {
    if (written.store->append(contents.of(sequence), 0, sequence) != Published::yes) refused = true;
    if (rng.chance(40)) written.store->commit();
    if (sequence % 4096 == 0) in_step = rng.between(0, 200);
    if (in_step > 0 && --in_step % 16 == 0) {
      written.store->commit();
      const std::uint64_t now = turns.load(std::memory_order_relaxed);
      while (turns.load(std::memory_order_relaxed) == now && !refused) {
        std::this_thread::yield();
      }
    }
  }
  written.store->commit();
}

// PB-24: one writer and one reader.
TEST(StoreThreads, WriterAtFullSpeedCorruptsNothing) {
  const std::uint64_t seed = test::seed();
  const std::uint64_t messages = sim::number_or("ROCKHOPPER_MESSAGES", 500'000);
  Written written(1, seed, std::uint64_t{1} << 18);
  Subscriber subscriber(written, Network::in_order, 1, seed);
  const std::uint64_t allocated = sim::forbidden_allocations();
  std::atomic<std::uint64_t> turns = 1;
  std::atomic<bool> refused = false;
  std::thread writer([&] { write(written, messages, turns, refused); });
  while (subscriber.observer().next < messages && !refused) {
    subscriber.turn(turns++);
  }
  writer.join();
  EXPECT_FALSE(refused);
  EXPECT_EQ(subscriber.observer().next, messages);
  EXPECT_EQ(subscriber.observer().corrupted, 0u);
  EXPECT_EQ(subscriber.observer().out_of_order, 0u);
  EXPECT_EQ(sim::forbidden_allocations(), allocated);
  EXPECT_TRUE(written.memory.intact());
}

// PB-2 to PB-5, PB-10, PB-11, PB-20, PB-21: three stores, each with its writer, and 64 subscribers
// with paces from each turn to every thousandth.
TEST(StoreThreads, PacesFromAllToAThousandth) {
  constexpr std::uint64_t kSubscribers = 64;
  const std::uint64_t seed = test::seed();
  const std::uint64_t messages = sim::number_or("ROCKHOPPER_MESSAGES", 500'000);
  std::vector<std::unique_ptr<Written>> stores;
  for (const std::uint64_t ring : {1u << 16, 1u << 18, 1u << 20}) {
    stores.push_back(
        std::make_unique<Written>(static_cast<std::uint16_t>(stores.size() + 1), seed, ring));
  }
  std::vector<std::unique_ptr<Subscriber>> subscribers;
  for (std::uint64_t i = 0; i < kSubscribers; ++i) {
    const double pace = std::pow(1000.0, static_cast<double>(i) / (kSubscribers - 1));
    subscribers.push_back(std::make_unique<Subscriber>(
        *stores[i % stores.size()], i % 2 == 0 ? Network::in_order : Network::repeating,
        static_cast<std::uint64_t>(std::lround(pace)), seed + i));
  }
  const std::uint64_t share = messages / stores.size();
  std::atomic<std::uint64_t> turns = 1;
  std::atomic<unsigned> writing = 0;
  std::atomic<bool> refused = false;
  std::vector<std::thread> writers;
  for (const auto& store : stores) {
    ++writing;
    writers.emplace_back([&, written = store.get()] {
      write(*written, share, turns, refused);
      --writing;
    });
  }
  const auto finished = [&] {
    return std::all_of(subscribers.begin(), subscribers.end(),
                       [&](const auto& one) { return one->observer().next == share; });
  };
  while (writing > 0) {
    for (const auto& subscriber : subscribers) {
      subscriber->turn(turns);
    }
    ++turns;
  }
  for (auto& writer : writers) {
    writer.join();
  }
  // Each reads what is left, the slow ones too.
  for (const auto& subscriber : subscribers) {
    subscriber->hurry();
  }
  for (int round = 0; round < 10'000 && !finished(); ++round) {
    for (const auto& subscriber : subscribers) {
      subscriber->turn(turns);
    }
    ++turns;
  }
  EXPECT_FALSE(refused);
  std::uint64_t delivered = 0;
  std::uint64_t lost = 0;
  std::uint64_t torn = 0;
  for (const auto& subscriber : subscribers) {
    const Observer& observer = subscriber->observer();
    EXPECT_EQ(observer.corrupted, 0u);
    EXPECT_EQ(observer.out_of_order, 0u);
    EXPECT_EQ(observer.delivered + observer.lost, share);
    delivered += observer.delivered;
    lost += observer.lost;
    const ReaderCounters& counters = subscriber->counters();
    torn += counters.invalid_position.value() + counters.invalid_sequence.value() +
            counters.invalid_trailer.value() + counters.invalid_checksum.value();
  }
  for (const auto& store : stores) {
    EXPECT_TRUE(store->memory.intact());
  }
  EXPECT_GT(delivered, 0u);
  EXPECT_GT(lost, 0u);
  EXPECT_GT(torn, 0u);
  std::printf("published %zu, delivered %zu, lost %zu, torn %zu\n",
              static_cast<std::size_t>(share * stores.size()), static_cast<std::size_t>(delivered),
              static_cast<std::size_t>(lost), static_cast<std::size_t>(torn));
}

// AddressSanitizer's own runtime may ask the kernel for memory at any place.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROCKHOPPER_RUNTIME_CALLS 1
#endif
#endif
#ifndef ROCKHOPPER_RUNTIME_CALLS

/// From here on the kernel kills a process for any call but read, write and exit.
[[nodiscard]] bool forbid_system_calls() { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0; }

// PB-7, PB-24: nothing is asked of the kernel to publish.
TEST(StoreThreads, WriterMakesNoSystemCall) {
  constexpr int kDone = 7;
  constexpr int kCannot = 77;
  Written written(1, test::seed(), std::uint64_t{1} << 16);
  Contents contents(written.seed);
  const auto publish = [&] {
    if (!forbid_system_calls()) syscall(SYS_exit, kCannot);
    for (std::uint64_t sequence = 0; sequence < 20'000; ++sequence) {
      if (written.store->publish(contents.of(sequence), 0, sequence) != Published::yes) {
        syscall(SYS_exit, 1);
      }
      written.store->heartbeat(sequence);
    }
    syscall(SYS_exit, kDone);
  };
  EXPECT_EXIT(publish(), ::testing::ExitedWithCode(kDone), "");
  // The same with a system call: that is noticed.
  EXPECT_EXIT(
      {
        if (!forbid_system_calls()) syscall(SYS_exit, kCannot);
        syscall(SYS_getppid);
        syscall(SYS_exit, kDone);
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

#endif

// PB-7, PB-13, PB-14, PB-17, PB-20, PB-24: what follows the writer in another thread sends nothing
// that is torn, says what it has skipped, and a reader that gets every second of its copies and
// READs the rest misses nothing; neither allocates.
TEST(StoreThreads, WriterAtFullSpeedBesideItsMulticast) {
  const std::uint64_t seed = test::seed();
  const std::uint64_t messages = sim::number_or("ROCKHOPPER_MESSAGES", 500'000);
  Written written(1, seed, std::uint64_t{1} << 18);
  Observer observer(written.expected);
  const ReaderConfig config{.start = {.at = Start::At::sequence}, .poll_max_ns = 100};
  Reader reader(config, observer);
  std::vector<std::byte> buffer(Reader::buffer_bytes(written.info, config));
  reader.set_buffer(buffer);
  reader.expect_copies(64, 1024);
  ASSERT_TRUE(reader.open(written.info, 0).has_value());
  LogFollower follower(*written.store);
  std::array<std::byte, 1024> room;
  Contents contents(written.seed);
  // What is skipped counts from the first that it has seen.
  ASSERT_EQ(written.store->publish(contents.of(0), 0, 0), Published::yes);
  ASSERT_NE(follower.next(room), LogFollower::Step::nothing);
  std::atomic<bool> refused = false;
  std::thread writer([&] {
    for (std::uint64_t sequence = 1; sequence < messages; ++sequence) {
      if (written.store->publish(contents.of(sequence), 0, sequence) != Published::yes) {
        refused = true;
      }
      if (sequence % 64 == 0) std::this_thread::yield();
    }
  });
  std::uint64_t seen = 1;
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
      std::memcpy(request.to.data(), written.memory.bytes().data() + request.offset,
                  request.to.size());
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
  EXPECT_TRUE(written.memory.intact());
  std::printf("published %zu, delivered %zu, of these from copies %zu\n",
              static_cast<std::size_t>(messages), static_cast<std::size_t>(observer.delivered),
              static_cast<std::size_t>(copies.taken.value()));
}

}  // namespace
}  // namespace rockhopper::publisher
