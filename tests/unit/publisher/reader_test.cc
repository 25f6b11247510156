// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A subscriber's side of a store, against a store whose memory it copies (PB-5, PB-6, PB-19 to
// PB-23, PB-27 to PB-30, PB-32).
#include "apps/services/publisher/reader.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/publisher/store.h"
#include "stack/link.h"
#include "tests/publisher/judge.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher::reader_test {
namespace {

using test::content;
using test::GuardedMemory;
using test::Judge;

constexpr std::uint64_t kRing = 16384;
constexpr std::uint64_t kHeartbeatNs = 1'000'000;

struct Rig {
  explicit Rig(const ReaderConfig& config = {}, std::uint32_t longest_message = 600,
               std::uint64_t ring = kRing)
      : longest(longest_message),
        memory(store_bytes(ring)),
        judge(seed, longest),
        reader(config, judge) {
    start_store(7);
    info = {.id = 1,
            .name = "a",
            .epoch = 7,
            .ring_bytes = ring,
            .message_max = longest,
            .heartbeat_ns = kHeartbeatNs};
    buffer.resize(Reader::buffer_bytes(info, config));
    reader.set_buffer(buffer);
    const auto opened = reader.open(info, now_ns);
    EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().message);
  }

  void start_store(std::uint64_t epoch) {
    store = *Store::create(memory.bytes(), {.id = 1, .epoch = epoch, .message_max = longest});
  }
  void publish(std::uint64_t count = 1) {
    for (; count > 0; --count) {
      const std::uint64_t sequence = store->next_sequence();
      EXPECT_EQ(
          store->publish(content(seed + store->epoch(), sequence, longest), 0, sequence * 1000),
          Published::yes);
    }
  }
  void copy(const ReadRequest& request) {
    if (request.offset == 0) {
      control_oldest = store->oldest_sequence();
      control_tail = store->next_sequence();
    }
    ASSERT_LE(request.offset + request.to.size(), memory.bytes().size()) << "outside the store";
    for (std::size_t at = 0; at < request.to.size(); at += piece) {
      copy_piece(request, at);
      if (meanwhile) meanwhile();
    }
    if (repeats) copy_piece(request, repeats->between(0, (request.to.size() - 1) / piece) * piece);
  }
  void copy_piece(const ReadRequest& request, std::size_t at) {
    const std::size_t length = std::min(piece, request.to.size() - at);
    std::memcpy(request.to.data() + at, memory.bytes().data() + request.offset + at, length);
  }
  /// One round if there is to be one now.
  bool round() {
    if (beats) store->heartbeat(now_ns);
    reader.tick(now_ns);
    const auto requests = reader.next_round(now_ns);
    if (requests.empty()) return false;
    reads += requests.size();
    EXPECT_LE(requests.size(), 3u);
    EXPECT_EQ(requests.back().offset, 0u) << "the control block is not the last one";
    if (control_first) copy(requests.back());
    for (const ReadRequest& request : requests.first(requests.size() - (control_first ? 1 : 0))) {
      copy(request);
    }
    reader.on_round(now_ns);
    return true;
  }
  /// Lets time pass to what is next, if that is before `limit_ns`.
  bool advance(std::uint64_t limit_ns) {
    const std::uint64_t next_ns = std::max(now_ns + 1, reader.next_deadline_ns());
    now_ns = std::min(next_ns, limit_ns);
    return next_ns <= limit_ns;
  }
  void run_until(std::uint64_t limit_ns) {
    do {
      round();
    } while (advance(limit_ns));
  }
  /// Until all that has been published is read.
  void catch_up() {
    meanwhile = nullptr;
    for (int i = 0; i < 1000 && (i < 2 || reader.state() != ReaderState::live); ++i) {
      now_ns = std::max(now_ns, reader.next_deadline_ns());
      round();
    }
    EXPECT_EQ(reader.state(), ReaderState::live);
  }
  void expect_good() const {
    EXPECT_EQ(judge.corrupted, 0u);
    EXPECT_EQ(judge.out_of_order, 0u);
    EXPECT_EQ(judge.epoch_mixed, 0u);
    EXPECT_TRUE(memory.intact());
  }

  std::uint64_t seed = test::seed();
  std::uint32_t longest;
  GuardedMemory memory;
  std::unique_ptr<Store> store;
  Judge judge;
  Reader reader;
  StoreInfo info;
  std::vector<std::byte> buffer;
  std::uint64_t now_ns = 1'000'000'000;
  std::uint64_t reads = 0;
  std::size_t piece = 256;
  bool beats = true;           ///< the publisher lives
  bool control_first = false;  ///< as when a READ of records is executed anew
  /// As when a packet of a READ's response is lost, and only this part is executed anew.
  std::optional<sim::Rng> repeats;
  std::uint64_t control_oldest = 0;  ///< when a control block was last copied
  std::uint64_t control_tail = 0;
  std::function<void()> meanwhile;
};

constexpr ReaderConfig kOldest{.start = {.at = Start::At::oldest}};

// PB-6, PB-28: one who keeps up gets everything, a round for all that has come.
TEST(Readers, WhoKeepsUpGetsEverything) {
  Rig rig(kOldest);
  sim::Rng rng(rig.seed);
  std::uint64_t rounds = 0;
  for (int i = 0; i < 1000; ++i) {
    rig.publish(rng.between(0, 8));
    rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
    rounds += rig.round() ? 1 : 0;
  }
  rig.catch_up();
  rig.expect_good();
  EXPECT_EQ(rig.judge.messages, rig.store->next_sequence());
  EXPECT_TRUE(rig.judge.lost.empty());
  EXPECT_GE(rounds, 999u);
}

// PB-23: around the end of the ring two READs, and the control block behind them; elsewhere one.
TEST(Readers, TwoReadsAroundTheEnd) {
  Rig rig(kOldest);
  bool wrapped = false;
  for (int i = 0; i < 500; ++i) {
    rig.publish(3);
    rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
    rig.round();
    const auto requests = rig.reader.next_round(rig.now_ns);
    if (requests.size() == 3) {
      wrapped = true;
      EXPECT_EQ(requests[0].offset + requests[0].to.size(), store_bytes(kRing));
      EXPECT_EQ(requests[1].offset, sizeof(ControlBlock));
      EXPECT_EQ(requests[0].to.data() + requests[0].to.size(), requests[1].to.data());
    }
    for (const ReadRequest& request : requests) {
      rig.copy(request);
    }
    rig.reader.on_round(rig.now_ns);
  }
  EXPECT_TRUE(wrapped);
  rig.expect_good();
}

// PB-21: who has been overtaken is told exactly what it has lost, and goes on with the oldest
// message that is there, without help.
TEST(Readers, OvertakenReaderLosesWhatIsGoneAndNoMore) {
  Rig rig(kOldest);
  rig.publish(5);
  rig.catch_up();
  sim::Rng rng(rig.seed);
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t next = *rig.judge.next;
    rig.publish(rng.between(1, 400));
    const std::uint64_t oldest = rig.store->oldest_sequence();
    rig.judge.lost.clear();
    rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
    rig.catch_up();
    if (oldest > next) {
      ASSERT_EQ(rig.judge.lost.size(), 1u);
      EXPECT_EQ(rig.judge.lost[0], std::pair(next, oldest - 1));
    } else {
      EXPECT_TRUE(rig.judge.lost.empty());
    }
    EXPECT_EQ(*rig.judge.next, rig.store->next_sequence());
  }
  rig.expect_good();
  EXPECT_GT(rig.reader.counters().lapped.value(), 0u);
}

/// The writer writes between the pieces of each READ, slowly or so that it overtakes.
void overwrite_while_reading(Rig& rig) {
  sim::Rng rng(rig.seed);
  std::uint64_t rest = 0;
  std::uint64_t pace = 0;
  rig.publish(1);
  rig.catch_up();
  rig.meanwhile = [&] {
    if (rest == 0) {
      rest = rng.between(1, 200);
      pace = rng.pick<std::uint64_t>({0, 0, 1, 1, 2, 6});
    }
    --rest;
    rig.publish(rng.between(0, pace));
  };
  for (int i = 0; i < 5000; ++i) {
    rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
    rig.round();
  }
  rig.catch_up();
}

// PB-5, PB-20, PB-21: a writer that overtakes READs in their midst. What is delivered and what is
// told as lost are all that was published, and nothing is corrupted.
TEST(Readers, TornReadsAreNeverDelivered) {
  Rig rig(kOldest, 2000);
  overwrite_while_reading(rig);
  rig.expect_good();
  EXPECT_EQ(rig.judge.first, 0u);
  EXPECT_EQ(*rig.judge.next, rig.store->next_sequence());
  EXPECT_GT(rig.reader.counters().lapped.value(), 10u);
}

// The same where the READ of records is executed after that of the control block, as when it is
// asked for again, some part of it once more behind the others: the head says nothing then, and a
// record can have its right beginning and end, but the checksum is wrong.
TEST(Readers, TornReadsBehindTheirControlBlockAreNeverDelivered) {
  Rig rig(kOldest, 2000);
  rig.control_first = true;
  rig.repeats.emplace(rig.seed);
  overwrite_while_reading(rig);
  rig.expect_good();
  EXPECT_EQ(*rig.judge.next, rig.store->next_sequence());
  const ReaderCounters& counters = rig.reader.counters();
  EXPECT_GT(counters.invalid_position.value(), 0u);
  EXPECT_GT(counters.invalid_trailer.value(), 0u);
  EXPECT_GT(counters.invalid_checksum.value(), 0u);
}

// A writer that is always a ring ahead when a round ends.
TEST(Readers, TooFastAPublisherIsNoDeadEnd) {
  Rig rig(kOldest);
  rig.publish(1);
  rig.meanwhile = [&] { rig.publish(200); };
  for (int i = 0; i < 200; ++i) {
    rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
    rig.round();
  }
  EXPECT_GT(rig.reader.counters().given_up.value(), 0u);
  rig.catch_up();
  rig.expect_good();
  EXPECT_EQ(*rig.judge.next, rig.store->next_sequence());
}

// PB-32: the four places to begin at.
TEST(Readers, BeginsWhereItIsTold) {
  constexpr std::uint64_t kBefore = 300;
  const auto first = [](const Start& start, std::uint64_t behind = 10) {
    Rig rig({.start = start});
    rig.publish(kBefore);
    rig.catch_up();
    rig.publish(behind);
    rig.catch_up();
    rig.expect_good();
    return rig.judge.first;
  };
  Rig model;
  model.publish(kBefore);
  const std::uint64_t oldest = model.store->oldest_sequence();
  ASSERT_GT(oldest, 0u);
  EXPECT_EQ(first({.at = Start::At::tail}), kBefore);
  EXPECT_EQ(first({.at = Start::At::oldest}), oldest);
  for (const std::uint64_t sequence :
       {std::uint64_t{0}, oldest - 1, oldest, oldest + 1, kBefore - 1, kBefore, kBefore + 5}) {
    EXPECT_EQ(first({.at = Start::At::sequence, .value = sequence}), sequence);
    // Message n has the time 1000 n.
    for (const std::uint64_t time : {sequence * 1000, sequence * 1000 - 1}) {
      EXPECT_EQ(first({.at = Start::At::time, .value = sequence == 0 ? 0 : time}),
                std::max(oldest, sequence));
    }
  }
  EXPECT_EQ(first({.at = Start::At::sequence, .value = kBefore + 100}), std::nullopt);
}

// PB-32: the same while the publisher writes between any two pieces of READs, at times so much that
// it overtakes. With the control block that was read last the model knows what was there.
TEST(Readers, BeginsWhereItIsToldWhileAllIsOverwritten) {
  sim::Rng rng(test::seed());
  unsigned overtaken = 0;
  for (int run = 0; run < 200; ++run) {
    const auto at = rng.pick({Start::At::tail, Start::At::oldest});
    const std::uint64_t pace = rng.pick<std::uint64_t>({1, 2, 3, 10});
    Rig rig({.start = {.at = at}});
    rig.publish(rng.between(0, 400));
    rig.meanwhile = [&] { rig.publish(rng.between(0, pace)); };
    std::optional<std::uint64_t> begin;
    for (int i = 0; i < 30 && !rig.judge.first; ++i) {
      rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
      rig.round();
      if (!begin) begin = at == Start::At::tail ? rig.control_tail : rig.control_oldest;
    }
    rig.meanwhile = nullptr;
    ASSERT_TRUE(begin.has_value());
    if (!rig.judge.first) continue;  // too fast for this path
    if (rig.reader.counters().given_up.value() > 0) continue;
    EXPECT_EQ(*rig.judge.first, std::max(*begin, rig.control_oldest));
    overtaken += rig.control_oldest > *begin;
    rig.expect_good();
  }
  EXPECT_GT(overtaken, 0u);
}

// PB-32 with PB-21: what was to be the first and is gone is told as lost.
TEST(Readers, MissingBeginningIsLost) {
  Rig rig({.start = {.at = Start::At::sequence, .value = 3}});
  rig.publish(300);
  const std::uint64_t oldest = rig.store->oldest_sequence();
  rig.catch_up();
  ASSERT_EQ(rig.judge.lost.size(), 1u);
  EXPECT_EQ(rig.judge.lost[0], std::pair(std::uint64_t{3}, oldest - 1));
}

// PB-27: a new incarnation in the same memory, at any moment, in the midst of a READ too.
TEST(Readers, EpochsAreNeverMixed) {
  Rig rig(kOldest);
  rig.piece = 32;  // half a control block
  sim::Rng rng(rig.seed);
  std::uint64_t epoch = 7;
  rig.meanwhile = [&] {
    if (rng.chance(1) && rng.chance(20)) rig.start_store(++epoch);
    if (rng.chance(10)) rig.publish(rng.between(0, 1));
  };
  // So many that no seed has few restarts.
  for (int i = 0; i < 12'000; ++i) {
    rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
    rig.round();
  }
  rig.meanwhile = nullptr;
  rig.publish(1);  // the last epoch may have none
  rig.catch_up();
  rig.expect_good();
  EXPECT_GT(rig.judge.restarts, 5u);
  EXPECT_EQ(rig.judge.epoch, epoch);
  EXPECT_EQ(*rig.judge.next, rig.store->next_sequence());
}

// PB-27: a publisher that comes back with the same store is no restart.
TEST(Readers, SameEpochGoesOn) {
  Rig rig(kOldest);
  rig.publish(20);
  rig.catch_up();
  rig.reader.close();
  EXPECT_EQ(rig.reader.next_deadline_ns(), stack::kNever);
  EXPECT_TRUE(rig.reader.next_round(rig.now_ns).empty());
  auto recovered = Store::recover(rig.memory.bytes(), {.id = 1, .epoch = 8, .message_max = 600});
  ASSERT_TRUE(recovered.has_value());
  rig.store = std::move(recovered->store);
  rig.publish(5);
  ASSERT_TRUE(rig.reader.open(rig.info, rig.now_ns).has_value());
  rig.catch_up();
  rig.expect_good();
  EXPECT_EQ(rig.judge.restarts, 0u);
  EXPECT_EQ(rig.judge.messages, 25u);
}

// PB-19: dead after three heart-beats, give or take one; alive again with the next; never wrongly.
TEST(Readers, ThreeMissingHeartbeatsAreADeath) {
  Rig rig({.start = {.at = Start::At::oldest}, .poll_max_ns = 50 * kHeartbeatNs});
  rig.beats = false;
  for (int beat = 0; beat < 200; ++beat) {
    rig.store->heartbeat(rig.now_ns);
    rig.run_until(rig.now_ns + kHeartbeatNs);
    ASSERT_NE(rig.reader.state(), ReaderState::publisher_dead);
  }
  const std::uint64_t stopped_ns = rig.now_ns - kHeartbeatNs;
  while (rig.reader.state() != ReaderState::publisher_dead) {
    ASSERT_LT(rig.now_ns, stopped_ns + 10 * kHeartbeatNs);
    rig.run_until(rig.now_ns + kHeartbeatNs / 10);
  }
  EXPECT_GE(rig.now_ns, stopped_ns + 2 * kHeartbeatNs);
  EXPECT_LE(rig.now_ns, stopped_ns + 4 * kHeartbeatNs + kHeartbeatNs / 10);
  rig.run_until(rig.now_ns + 20 * kHeartbeatNs);
  EXPECT_EQ(rig.reader.state(), ReaderState::publisher_dead);
  EXPECT_EQ(rig.reader.counters().deaths.value(), 1u) << "once";
  rig.store->heartbeat(rig.now_ns);
  rig.run_until(rig.now_ns + 2 * kHeartbeatNs);
  EXPECT_EQ(rig.reader.state(), ReaderState::live);
  EXPECT_EQ(rig.reader.counters().revivals.value(), 1u);
}

// PB-19: READs that are not answered, as of a host that is gone.
TEST(Readers, UnansweredRoundsAreADeath) {
  Rig rig(kOldest);
  rig.catch_up();
  rig.now_ns = rig.reader.next_deadline_ns();
  ASSERT_FALSE(rig.reader.next_round(rig.now_ns).empty());
  EXPECT_LE(rig.reader.next_deadline_ns(), rig.now_ns + 3 * kHeartbeatNs + 1);
  rig.now_ns = rig.reader.next_deadline_ns();
  rig.reader.tick(rig.now_ns);
  EXPECT_EQ(rig.reader.state(), ReaderState::publisher_dead);
}

// PB-11, PB-19: who has paused for long takes nobody for dead, and goes on.
TEST(Readers, PauseIsNoDeath) {
  Rig rig(kOldest);
  rig.catch_up();
  rig.reader.pause(true);
  EXPECT_EQ(rig.reader.next_deadline_ns(), stack::kNever);
  EXPECT_TRUE(rig.reader.next_round(rig.now_ns).empty());
  rig.now_ns += 100 * kHeartbeatNs;
  rig.publish(500);
  rig.reader.pause(false);
  rig.reader.tick(rig.now_ns);
  EXPECT_NE(rig.reader.state(), ReaderState::publisher_dead);
  rig.catch_up();
  rig.expect_good();
  EXPECT_EQ(*rig.judge.next, 500u);
}

// PB-29: all is read before it watches, and nothing while it does; what an answer says of the tail
// need not be true.
TEST(Readers, AnswersToWatchesAreNotTrusted) {
  Rig rig({.start = {.at = Start::At::oldest}, .watch = true});
  sim::Rng rng(rig.seed);
  for (int i = 0; i < 500; ++i) {
    rig.publish(rng.between(0, 4));
    std::optional<StoreTail> known;
    for (int round = 0; round < 100 && !known; ++round) {
      rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
      rig.round();
      known = rig.reader.next_watch();
      if (known && *known != rig.store->tail()) {
        // As a publisher answers that compares the two.
        rig.reader.on_watch();
        EXPECT_TRUE(rig.reader.on_tail(rig.store->tail(), rig.now_ns));
        known.reset();
      }
    }
    ASSERT_EQ(known, rig.store->tail());
    rig.reader.on_watch();
    EXPECT_EQ(rig.reader.next_watch(), std::nullopt);
    EXPECT_FALSE(rig.round());
    const StoreTail claimed{.epoch = known->epoch + rng.between(0, 1),
                            .position = rng.pick<std::uint64_t>(
                                {0, known->position, known->position + 32, known->position + 33,
                                 known->position + 100 * kRing, UINT64_MAX, UINT64_MAX - 31})};
    EXPECT_TRUE(rig.reader.on_tail(claimed, rig.now_ns));
    EXPECT_FALSE(rig.reader.on_tail(claimed, rig.now_ns)) << "nobody has asked";
  }
  EXPECT_EQ(rig.judge.next.value_or(0), rig.store->next_sequence());
  EXPECT_TRUE(rig.judge.lost.empty());
  rig.expect_good();
}

// PB-28: while nothing comes it looks less and less often, down to poll_max_ns, and at once again
// after something has come.
TEST(Readers, PollsLessWhileNothingComes) {
  Rig rig({.start = {.at = Start::At::oldest}, .poll_min_ns = 1000, .poll_max_ns = 100'000});
  rig.catch_up();
  std::vector<std::uint64_t> waits;
  for (int i = 0; i < 12; ++i) {
    const std::uint64_t before_ns = rig.now_ns;
    rig.now_ns = rig.reader.next_deadline_ns();
    ASSERT_TRUE(rig.round());
    if (i > 0) waits.push_back(rig.now_ns - before_ns);
  }
  EXPECT_TRUE(std::is_sorted(waits.begin(), waits.end()));
  EXPECT_EQ(waits.back(), 100'000u);
  rig.publish(1);
  rig.now_ns = rig.reader.next_deadline_ns();
  ASSERT_TRUE(rig.round());
  EXPECT_EQ(rig.reader.next_deadline_ns(), rig.now_ns) << "there is something to be read";
  ASSERT_TRUE(rig.round());
  EXPECT_EQ(rig.reader.next_deadline_ns(), rig.now_ns + 1000);
}

// PB-28: no more READs than allowed, however much there is.
TEST(Readers, ReadRateIsKept) {
  constexpr std::uint32_t kRate = 1000;
  Rig rig({.start = {.at = Start::At::oldest}, .poll_max_ns = 0, .reads_per_second = kRate});
  const std::uint64_t start_ns = rig.now_ns;
  while (rig.now_ns < start_ns + 1'000'000'000) {
    rig.publish(1);
    rig.run_until(rig.now_ns + 100'000);
  }
  EXPECT_LE(rig.reads, kRate + 3);
  EXPECT_GE(rig.reads, kRate * 9 / 10);
  EXPECT_EQ(rig.reader.counters().deaths.value(), 0u);
  rig.expect_good();
}

// Batches shorter than what there is: nothing is lost at their ends.
TEST(Readers, BatchesAreBounded) {
  Rig rig({.start = {.at = Start::At::oldest}, .batch_bytes = 1024});
  rig.publish(100);
  const std::uint64_t oldest = rig.store->oldest_sequence();
  rig.catch_up();
  rig.expect_good();
  EXPECT_EQ(rig.judge.first, oldest);
  EXPECT_EQ(*rig.judge.next, 100u);
  EXPECT_GT(rig.reader.counters().rounds.value(), 8u);
}

// PB-28: what is READ at a time is a batch at most, whatever the store may have, until there is a
// message that is longer.
TEST(Readers, BatchesGrowWithMessagesOnly) {
  constexpr std::uint32_t kBatch = 1024;
  Rig rig({.start = {.at = Start::At::oldest}, .batch_bytes = kBatch}, 3000);
  const auto publish = [&](std::uint32_t bytes) {
    const std::vector<std::byte> payload(bytes);
    ASSERT_EQ(rig.store->publish(payload, 0, 0), Published::yes);
  };
  const auto longest_read = [&] {
    std::uint64_t longest = 0;
    for (int i = 0; i < 100; ++i) {
      rig.now_ns = std::max(rig.now_ns, rig.reader.next_deadline_ns());
      rig.reader.tick(rig.now_ns);
      const auto requests = rig.reader.next_round(rig.now_ns);
      if (requests.empty()) continue;
      std::uint64_t bytes = 0;
      for (const ReadRequest& request : requests.first(requests.size() - 1)) {
        bytes += request.to.size();
      }
      longest = std::max(longest, bytes);
      for (const ReadRequest& request : requests) {
        rig.copy(request);
      }
      rig.reader.on_round(rig.now_ns);
    }
    return longest;
  };
  for (int i = 0; i < 50; ++i) {
    publish(100);
  }
  EXPECT_EQ(longest_read(), kBatch);
  EXPECT_EQ(rig.reader.counters().messages.value(), 50u);
  publish(2000);
  for (int i = 0; i < 50; ++i) {
    publish(100);
  }
  EXPECT_EQ(longest_read(), Record::size_of(2000));
  const ReaderCounters& counters = rig.reader.counters();
  EXPECT_EQ(counters.messages.value(), 101u);
  EXPECT_EQ(counters.lost.value(), 0u);
  EXPECT_EQ(counters.invalid_length.value(), 0u);
}

// PB-30: stores of another layout, and such as cannot be, are refused.
TEST(Readers, OtherStoresAreRefused) {
  Rig rig;
  const auto refused = [&](auto change) {
    StoreInfo info = rig.info;
    change(info);
    Reader reader({}, rig.judge);
    reader.set_buffer(rig.buffer);
    return !reader.open(info, 0).has_value();
  };
  EXPECT_FALSE(refused([](StoreInfo&) {}));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.layout += 0x100; }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.layout = layout_of(StoreKind::conflated); }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.ring_bytes = 0; }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.ring_bytes -= 64; }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.ring_bytes = kRingMax * 2; }));
  EXPECT_TRUE(refused([](StoreInfo& info) { info.message_max = kRing / 4 + 1; }));
  Reader reader({}, rig.judge);
  reader.set_buffer(std::span(rig.buffer).first(rig.buffer.size() - 1));
  EXPECT_FALSE(reader.open(rig.info, 0).has_value()) << "too small a buffer";
}

// Nothing that a store's memory may have leads out of it, nor out of the buffer (AddressSanitizer).
TEST(Readers, AnyMemoryIsTaken) {
  sim::Rng rng(test::seed());
  for (int run = 0; run < 100; ++run) {
    Rig rig(kOldest);
    rig.publish(rng.between(0, 400));
    rig.meanwhile = [&] {
      if (rng.chance(70)) return;
      auto bytes = rig.memory.bytes();
      const std::uint64_t limit = rng.chance(50) ? sizeof(ControlBlock) : bytes.size();
      const std::size_t at = rng.between(0, limit - 8) / 8 * 8;
      const std::uint64_t value = rng.pick<std::uint64_t>(
          {rng.next(), rng.between(0, 2 * kRing) / 32 * 32, 0, UINT64_MAX, UINT64_MAX - 31});
      store_le(bytes.data() + at, value);
    };
    for (int i = 0; i < 60; ++i) {
      rig.now_ns =
          std::min(std::max(rig.now_ns, rig.reader.next_deadline_ns()), rig.now_ns + 1'000'000'000);
      rig.round();
    }
    ASSERT_EQ(rig.judge.corrupted, 0u);
  }
}

}  // namespace
}  // namespace rockhopper::publisher::reader_test
