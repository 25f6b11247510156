// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Who waits for which lock word, and who is next (LK-7, LK-9, LK-27, LK-28, LK-30, LK-32, LK-34).
#include "roce/lock/lock_table.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/lock/lock_word.h"
#include "stack/timing_wheel.h"
#include "tests/support/seed.h"

namespace rockhopper::test::lock_table_test {
namespace {

using roce::lock::Claim;
using roce::lock::kWaitersBit;
using roce::lock::LockTable;
using roce::lock::LockWord;
using roce::lock::Mode;
using roce::lock::Region;
using roce::lock::Waiter;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::LockCause;

constexpr std::uint64_t kTickNs = 1024;
constexpr std::uint64_t kRetryNs = 50'000;
constexpr std::uint16_t kUnlimited = wire::Lketh::kTriesUnlimited;

/// Held by somebody who is not in the table.
constexpr std::uint64_t kHeldElsewhere = LockWord{.generation = 5,
                                                  .state = LockWord::State::exclusive,
                                                  .flags = 0,
                                                  .owner = 0xbeef,
                                                  .readers = 0}
                                             .value();

struct Table;

/// Somebody who asks for locks.
struct Party {
  Party(Table& table, char name);

  void decide(LockCause cause);

  Table& table;
  char name;
  Waiter waiter;
  std::vector<LockCause> decisions;      ///< at once or later
  std::function<void()> when_granted{};  ///< within the decision
};

struct Table {
  explicit Table(std::uint32_t retry_us = 50)
      : region(words.data(), sizeof words, {.first_token = 100, .retry_us = retry_us}) {
    table.attach(region);
  }
  ~Table() {
    for (auto& party : parties) {
      table.leave(party->waiter);
    }
  }

  Party& party() {
    table.add_waiter();
    parties.push_back(
        std::make_unique<Party>(*this, static_cast<char>('a' + static_cast<int>(parties.size()))));
    return *parties.back();
  }
  std::vector<Party*> several(int count) {
    std::vector<Party*> result;
    for (int i = 0; i < count; ++i) {
      result.push_back(&party());
    }
    return result;
  }
  Claim claim(std::size_t index, Mode mode = Mode::exclusive, std::uint16_t owner = 1) {
    return {.word = &words[index], .region = &region, .mode = mode, .owner = owner};
  }

  /// Granted or failed at once, or it waits from now on.
  void ask(Party& party, const std::vector<Claim>& claims, const Waiter::Limits& limits = {}) {
    party.waiter.reset(limits);
    for (const Claim& one : claims) {
      ASSERT_TRUE(party.waiter.add(one));
    }
    if (const auto cause = table.begin(party.waiter)) {
      party.decide(*cause);
    } else {
      table.wait(party.waiter);
    }
  }
  void ask_shared(Party& party, std::size_t index) { ask(party, {claim(index, Mode::shared)}); }
  void ask_exclusive(Party& party, std::size_t index) { ask(party, {claim(index)}); }
  /// Free again, and the next are told.
  void give_back(Party& party) {
    EXPECT_TRUE(table.give_back(party.waiter));
    table.run();
  }
  /// Until the next look that a timer causes.
  void one_retry() {
    now_ns += kRetryNs + kTickNs;
    timers.advance(now_ns);
  }
  /// Without telling anybody, as a CPU would.
  void store(std::size_t index, std::uint64_t value) { words[index] = value; }
  LockWord word(std::size_t index) const { return LockWord::from(words[index]); }
  std::uint64_t iterations() const { return region.statistics().iterations.load(); }

  std::uint64_t now_ns = 1'000'000;
  std::array<std::uint64_t, 64> words{};
  Region region;
  stack::TimingWheel timers{kTickNs};
  LockTable table{timers, now_ns};
  std::vector<std::unique_ptr<Party>> parties;
  std::string grants;  ///< names, in the order of grants
};

Party::Party(Table& all, char its_name)
    : table(all),
      name(its_name),
      waiter([](void* self, LockCause cause,
                std::uint64_t) { static_cast<Party*>(self)->decide(cause); },
             this) {}

void Party::decide(LockCause cause) {
  decisions.push_back(cause);
  if (cause != LockCause::none) return;
  table.grants += name;
  if (when_granted) when_granted();
}

TEST(LockTable, AFreeWordIsGrantedAtOnceAndCostsNothing) {
  Table t;
  Party& a = t.party();
  t.ask_exclusive(a, 3);
  EXPECT_THAT(a.decisions, ElementsAre(LockCause::none));
  EXPECT_TRUE(t.table.idle());
  EXPECT_EQ(t.words[3], (LockWord{0, LockWord::State::exclusive, 0, 1, 0}.value()));
  t.give_back(a);
  EXPECT_EQ(t.words[3], (LockWord{1, LockWord::State::free, 0, 0, 0}.value()));
  EXPECT_EQ(t.iterations(), 1u);
  EXPECT_EQ(t.region.statistics().immediate_grants.load(), 1u);
  EXPECT_EQ(t.region.statistics().waits.load(), 0u);
}

/// LK-28: in the order of arrival; LK-30: with increasing tokens.
TEST(LockTable, WritersGetItInTheOrderOfArrival) {
  Table t;
  const auto parties = t.several(6);
  for (Party* one : parties) {
    t.ask_exclusive(*one, 0);
  }
  std::uint64_t token = 0;
  for (std::size_t i = 0; i < parties.size(); ++i) {
    ASSERT_EQ(t.grants, std::string("abcdef").substr(0, i + 1));
    EXPECT_GT(parties[i]->waiter.token(), token);
    token = parties[i]->waiter.token();
    EXPECT_EQ(t.word(0).has_waiters(), i + 1 < parties.size());
    t.give_back(*parties[i]);
  }
  EXPECT_TRUE(t.table.idle());
  EXPECT_EQ(t.words[0], (LockWord{6, LockWord::State::free, 0, 0, 0}.value()));
}

/// LK-28: readers pass readers that wait, but not a writer that does.
TEST(LockTable, ReadersDoNotPassAWriter) {
  Table t;
  const auto p = t.several(7);
  t.ask_shared(*p[0], 0);
  t.ask_shared(*p[1], 0);
  EXPECT_EQ(t.grants, "ab");
  t.ask_exclusive(*p[2], 0);
  t.ask_shared(*p[3], 0);  // it could share the word
  t.ask_shared(*p[4], 0);
  t.ask_exclusive(*p[5], 0);
  t.ask_shared(*p[6], 0);
  EXPECT_EQ(t.grants, "ab");
  t.give_back(*p[0]);
  EXPECT_EQ(t.grants, "ab");
  t.give_back(*p[1]);
  EXPECT_EQ(t.grants, "abc");
  t.give_back(*p[2]);
  EXPECT_EQ(t.grants, "abcde") << "both readers, and not the one behind the next writer";
  EXPECT_EQ(t.word(0).readers, 2);
  t.give_back(*p[4]);
  t.give_back(*p[3]);
  t.give_back(*p[5]);
  EXPECT_EQ(t.grants, "abcdefg");
}

/// Only readers are in the queue: a new one need not wait for their turn.
TEST(LockTable, AReaderPassesReadersThatWait) {
  Table t;
  const auto p = t.several(2);
  t.store(0, kHeldElsewhere);
  t.ask_shared(*p[0], 0);
  t.store(0, 0);  // nobody has told of it
  t.ask_shared(*p[1], 0);
  EXPECT_EQ(t.grants, "b");
  t.one_retry();
  EXPECT_EQ(t.grants, "ba");
}

TEST(LockTable, WithoutTheFlagItPassesThoseWhoWait) {
  Table t;
  const auto p = t.several(3);
  t.ask_exclusive(*p[0], 0);
  t.ask_exclusive(*p[1], 0);
  EXPECT_TRUE(t.table.give_back(p[0]->waiter));
  // The word is free, and b has not been told yet.
  t.ask(*p[2], {t.claim(0)}, {.fifo = false});
  EXPECT_EQ(t.grants, "ac");
  t.table.run();
  EXPECT_EQ(t.grants, "ac");
  t.give_back(*p[2]);
  EXPECT_EQ(t.grants, "acb");
}

/// One who keeps the order does not pass, though the word is free.
TEST(LockTable, WithTheFlagItWaitsBehindThoseWhoWait) {
  Table t;
  const auto p = t.several(3);
  t.ask_exclusive(*p[0], 0);
  t.ask_exclusive(*p[1], 0);
  EXPECT_TRUE(t.table.give_back(p[0]->waiter));
  t.ask_exclusive(*p[2], 0);
  t.table.run();
  EXPECT_EQ(t.grants, "ab");
}

/// LK-9: T tries are T evaluations, whatever causes them, and then one failure.
TEST(LockTable, TriesAreExact) {
  for (std::uint16_t tries = 0; tries <= 50; ++tries) {
    for (const bool told : {false, true}) {
      Table t;
      t.store(0, kHeldElsewhere);
      Party& a = t.party();
      t.ask(a, {t.claim(0)}, {.tries = tries});
      for (int i = 0; i < 60; ++i) {
        ASSERT_EQ(a.decisions.empty(), t.iterations() < tries) << tries;
        if (told) {
          t.table.note_write(reinterpret_cast<const std::byte*>(&t.words[0]), 8);
          t.table.run();
        } else {
          t.one_retry();
        }
      }
      ASSERT_THAT(a.decisions, ElementsAre(LockCause::tries));
      ASSERT_EQ(t.iterations(), tries);
      ASSERT_EQ(a.waiter.looks(), tries);
      ASSERT_EQ(t.region.statistics().failures.load(), 1u);
      ASSERT_EQ(t.words[0], kHeldElsewhere) << "as it was, and no trace of who waited";
      ASSERT_TRUE(t.table.idle());
    }
  }
}

/// LK-9: the last try counts.
TEST(LockTable, ItIsGrantedAtTheLastTryAndNotBehindIt) {
  for (const bool in_time : {true, false}) {
    Table t;
    t.store(0, kHeldElsewhere);
    Party& a = t.party();
    t.ask(a, {t.claim(0)}, {.tries = 5});
    for (int i = 0; i < 3; ++i) {
      t.one_retry();
    }
    if (!in_time) t.one_retry();
    t.store(0, 0);
    t.one_retry();
    EXPECT_THAT(a.decisions, ElementsAre(in_time ? LockCause::none : LockCause::tries));
  }
}

/// Each has its own number of tries, in any order, and those who come later their own too.
TEST(LockTable, TriesOfSeveralWaiters) {
  Table t;
  t.store(0, kHeldElsewhere);
  const auto p = t.several(4);
  const std::array<std::uint16_t, 4> tries = {7, 3, kUnlimited, 4};
  for (std::size_t i = 0; i < 3; ++i) {
    t.ask(*p[i], {t.claim(0)}, {.tries = tries[i]});
  }
  for (int look = 2; look <= 9; ++look) {
    t.one_retry();
    if (look == 4) t.ask(*p[3], {t.claim(0)}, {.tries = tries[3]});
    EXPECT_EQ(!p[1]->decisions.empty(), look >= 3);
    EXPECT_EQ(!p[3]->decisions.empty(), look >= 7);
    EXPECT_EQ(!p[0]->decisions.empty(), look >= 7);
  }
  EXPECT_THAT(p[2]->decisions, IsEmpty());
  EXPECT_EQ(p[2]->waiter.looks(), 9u);
}

/// LK-9 for several words: looking at another of them is no new try.
TEST(LockTable, TriesAreExactForSeveralWords) {
  for (std::uint16_t tries = 1; tries <= 6; ++tries) {
    Table t;
    Party& a = t.party();
    t.store(0, kHeldElsewhere);
    t.ask(a, {t.claim(0), t.claim(1)}, {.tries = tries});
    for (unsigned i = 0; i < 10; ++i) {
      // Always one of them is held, by turns, so that it moves from queue to queue.
      t.store(i % 2, t.words[i % 2] & kWaitersBit);
      t.store((i + 1) % 2, kHeldElsewhere | (t.words[(i + 1) % 2] & kWaitersBit));
      t.one_retry();
    }
    EXPECT_THAT(a.decisions, ElementsAre(LockCause::tries)) << tries;
    EXPECT_EQ(a.waiter.looks(), tries);
    EXPECT_EQ(t.iterations(), tries);
  }
}

/// LK-27: by the timer, when nobody tells of a release.
TEST(LockTable, AReleaseThatNobodyTellsOfIsSeenWithinTheRetryTime) {
  Table t;
  t.store(0, kHeldElsewhere);
  Party& a = t.party();
  t.ask_exclusive(a, 0);
  EXPECT_TRUE(t.word(0).has_waiters());
  t.store(0, t.words[0] & kWaitersBit);
  t.table.run();
  EXPECT_THAT(a.decisions, IsEmpty());
  const std::uint64_t asked_ns = t.now_ns;
  while (a.decisions.empty()) {
    t.now_ns += kTickNs;
    t.timers.advance(t.now_ns);
    ASSERT_LE(t.now_ns, asked_ns + 2 * kRetryNs);
  }
  EXPECT_LE(t.now_ns, asked_ns + kRetryNs + 2 * kTickNs);
}

/// LK-27: at once, by what is written through the engine to any of its bytes, and to no others.
TEST(LockTable, AWriteToTheWordIsSeenAtOnce) {
  for (int first = -20; first <= 20; ++first) {
    for (const int length : {1, 4, 8, 16}) {
      Table t;
      t.store(4, kHeldElsewhere);
      Party& a = t.party();
      t.ask_exclusive(a, 4);
      t.store(4, 0);
      const auto* begin = reinterpret_cast<const std::byte*>(&t.words[4]) + first;
      t.table.note_write(begin, static_cast<std::uint64_t>(length));
      t.table.run();
      EXPECT_EQ(!a.decisions.empty(), first < 8 && first + length > 0) << first << " " << length;
    }
  }
}

/// The same for long ones, wherever the word is among those that they cover.
TEST(LockTable, ALongWriteToTheWordIsSeenAtOnce) {
  Table t;
  Party& a = t.party();
  for (const std::size_t index : {0, 31, 32, 63}) {
    for (const int first : {-(1 << 19), -4096, -300, -256, 0, 7, 8}) {
      for (const int length : {0, 64, 256, 300, 4096, 1 << 20}) {
        t.store(index, kHeldElsewhere);
        a.decisions.clear();
        t.ask_exclusive(a, index);
        t.store(index, 0);
        const auto* begin = reinterpret_cast<const std::byte*>(&t.words[index]) + first;
        t.table.note_write(begin, static_cast<std::uint64_t>(length));
        t.table.run();
        EXPECT_EQ(!a.decisions.empty(), length > 0 && first < 8 && first + length > 0)
            << index << " " << first << " " << length;
        t.table.leave(a.waiter);
        if (!a.decisions.empty()) t.give_back(a);
      }
    }
  }
}

/// LK-27: at once, when a thread of the process or another engine tells of it.
TEST(LockTable, ANotedReleaseIsSeenAtOnce) {
  Table t;
  t.store(0, kHeldElsewhere);
  t.store(1, kHeldElsewhere);
  const auto p = t.several(2);
  t.ask_exclusive(*p[0], 0);
  t.ask_exclusive(*p[1], 1);
  t.store(1, t.words[1] & kWaitersBit);
  t.region.note_release();
  const std::uint64_t before = t.iterations();
  t.table.run();
  EXPECT_EQ(t.grants, "b");
  EXPECT_EQ(t.iterations(), before + 1) << "only the word that has changed";
}

/// Engines that serve a region together tell each other of releases of words with waiters.
TEST(LockTable, EnginesOfOneRegionTellEachOther) {
  Table t;
  stack::TimingWheel timers{kTickNs};
  LockTable other(timers, t.now_ns);
  other.attach(t.region);
  const auto p = t.several(2);
  other.add_waiter();
  Waiter& holder = p[0]->waiter;
  holder.reset({});
  ASSERT_TRUE(holder.add(t.claim(0)));
  ASSERT_EQ(other.begin(holder), LockCause::none);
  t.ask_exclusive(*p[1], 0);
  EXPECT_EQ(t.grants, "");
  ASSERT_TRUE(other.give_back(holder));
  t.table.run();
  EXPECT_EQ(t.grants, "b");
  EXPECT_TRUE(other.detach(t.region));
}

/// LK-32: all or none; what was not to be had leaves no trace.
TEST(LockTable, SeveralWordsAreTakenTogether) {
  Table t;
  const auto p = t.several(2);
  t.store(5, kHeldElsewhere);
  t.ask(*p[0], {t.claim(9), t.claim(2), t.claim(5, Mode::shared)});
  EXPECT_THAT(p[0]->decisions, IsEmpty());
  EXPECT_TRUE(t.word(2).is_free());
  EXPECT_TRUE(t.word(9).is_free());
  // Nobody is held up by one who waits elsewhere.
  t.ask_exclusive(*p[1], 9);
  EXPECT_EQ(t.grants, "b");
  t.store(5, t.words[5] & kWaitersBit);
  t.one_retry();
  EXPECT_EQ(t.grants, "b") << "now it waits for word 9";
  EXPECT_TRUE(t.word(2).is_free());
  EXPECT_TRUE(t.word(5).is_free());
  EXPECT_FALSE(t.word(5).has_waiters());
  EXPECT_TRUE(t.word(9).has_waiters());
  t.give_back(*p[1]);
  EXPECT_EQ(t.grants, "ba");
  EXPECT_TRUE(t.word(2).held_by(1, t.word(2).generation));
  EXPECT_EQ(t.word(5).readers, 1);
  EXPECT_TRUE(t.word(9).held_by(1, t.word(9).generation));
  t.give_back(*p[0]);
  for (const std::size_t i : {2u, 5u, 9u}) {
    EXPECT_TRUE(t.word(i).is_free());
  }
}

/// LK-32: by opposite orders of the same words nobody waits for ever, and no word twice.
TEST(LockTable, WordsAreTakenInTheOrderOfAddresses) {
  Table t;
  Party& a = t.party();
  a.waiter.reset({});
  for (const std::size_t i : {7u, 1u, 4u, 0u}) {
    ASSERT_TRUE(a.waiter.add(t.claim(i)));
  }
  EXPECT_FALSE(a.waiter.add(t.claim(4)));
  EXPECT_FALSE(a.waiter.add(t.claim(7, Mode::shared)));
  for (const std::size_t i : {20u, 21u, 22u, 23u}) {
    ASSERT_TRUE(a.waiter.add(t.claim(i)));
  }
  EXPECT_FALSE(a.waiter.add(t.claim(30))) << "kMaxClaims";
  EXPECT_TRUE(std::ranges::is_sorted(a.waiter.claims(), {}, &Claim::word));
  EXPECT_EQ(a.waiter.claims().size(), roce::lock::kMaxClaims);
}

/// All waiters wait for words of their own, and one of them goes on to yet another word.
TEST(LockTable, MovingOnToAnotherWordNeedsNoRoomOfOthers) {
  Table t;
  const auto p = t.several(3);
  for (const std::size_t i : {0u, 1u, 2u, 3u}) {
    t.store(i, kHeldElsewhere);
  }
  t.ask(*p[0], {t.claim(0), t.claim(3)});
  t.ask_exclusive(*p[1], 1);
  t.ask_exclusive(*p[2], 2);
  t.store(0, t.words[0] & kWaitersBit);
  t.one_retry();
  EXPECT_FALSE(t.word(0).has_waiters());
  EXPECT_TRUE(t.word(3).has_waiters());
  t.store(3, t.words[3] & kWaitersBit);
  t.one_retry();
  EXPECT_EQ(t.grants, "a");
}

/// Who goes on to another word no longer holds up those behind it.
TEST(LockTable, ThoseBehindOneThatMovesOnAreNextAtOnce) {
  Table t;
  const auto p = t.several(2);
  t.store(0, kHeldElsewhere);
  t.store(1, kHeldElsewhere);
  t.ask(*p[0], {t.claim(0), t.claim(1)});
  t.ask_exclusive(*p[1], 0);
  t.store(0, t.words[0] & kWaitersBit);
  t.region.note_release();
  t.table.run();
  EXPECT_EQ(t.grants, "b");
}

/// What the requester is told of a word that was not its own: not a claim of itself.
TEST(LockTable, AFailedRequestTellsTheWordAsOthersLeftIt) {
  Table t;
  Party& a = t.party();
  t.store(1, kHeldElsewhere);
  t.ask(a, {t.claim(0), t.claim(1)}, {.tries = 1});
  ASSERT_THAT(a.decisions, ElementsAre(LockCause::tries));
  EXPECT_TRUE(LockWord::from(a.waiter.first().previous).is_free());
}

/// One that goes lets those behind it pass.
TEST(LockTable, LeavingLetsOthersPass) {
  Table t;
  const auto p = t.several(4);
  t.ask_shared(*p[0], 0);
  t.ask_exclusive(*p[1], 0);
  t.ask_shared(*p[2], 0);
  t.ask_shared(*p[3], 0);
  t.table.leave(p[1]->waiter);
  t.table.run();
  EXPECT_EQ(t.grants, "acd");
  EXPECT_THAT(p[1]->decisions, IsEmpty());
  EXPECT_FALSE(t.word(0).has_waiters());
  t.table.leave(p[1]->waiter);  // no effect
}

/// The next request of one who is told may wait for the same word.
TEST(LockTable, ADecisionMayBeginTheNextRequest) {
  Table t;
  const auto p = t.several(3);
  int rounds = 0;
  for (Party* one : p) {
    one->when_granted = [&t, &rounds, one] {
      if (++rounds > 30) return;
      EXPECT_TRUE(t.table.give_back(one->waiter));
      t.ask_exclusive(*one, 0);
    };
  }
  t.store(0, kHeldElsewhere);
  for (Party* one : p) {
    t.ask_exclusive(*one, 0);
  }
  t.store(0, t.words[0] & kWaitersBit);
  t.region.note_release();
  t.table.run();
  EXPECT_EQ(t.grants, "abcabcabcabcabcabcabcabcabcabca") << "in turn, in one run";
  EXPECT_EQ(rounds, 31);
  t.give_back(*p[0]);
}

/// A failure may begin one, too.
TEST(LockTable, AFailureMayBeginTheNextRequest) {
  Table t;
  t.store(0, kHeldElsewhere);
  Party& a = t.party();
  t.ask(a, {t.claim(0)}, {.tries = 2});
  t.one_retry();
  EXPECT_THAT(a.decisions, ElementsAre(LockCause::tries));
  t.ask(a, {t.claim(0)}, {.tries = 3});
  t.one_retry();
  t.one_retry();
  EXPECT_THAT(a.decisions, ElementsAre(LockCause::tries, LockCause::tries));
  EXPECT_EQ(a.waiter.looks(), 3u);
}

TEST(LockTable, RetiresWordsThatNobodyWaitsFor) {
  Table t;
  Party& holder = t.party();
  Party& a = t.party();
  for (std::size_t i = 0; i < t.words.size(); ++i) {
    t.ask_exclusive(holder, i);
    t.ask_exclusive(a, i);
    EXPECT_TRUE(t.word(i).has_waiters());
    if (i % 2 == 0) {
      t.give_back(holder);
      EXPECT_FALSE(t.word(i).has_waiters());
      t.give_back(a);
    } else {
      t.table.leave(a.waiter);
      EXPECT_FALSE(t.word(i).has_waiters());
      t.give_back(holder);
    }
    EXPECT_TRUE(t.word(i).is_free());
    EXPECT_TRUE(t.table.idle());
  }
  const std::uint64_t looks = t.iterations();
  for (int i = 0; i < 10; ++i) {
    t.one_retry();
  }
  EXPECT_EQ(t.iterations(), looks) << "no timer is left";
}

/// LK-14: nothing is set in a word whose layout is not ours.
TEST(LockTable, ForeignWordsAreNotMarked) {
  Table t;
  const auto p = t.several(2);
  const auto foreign = [&t] {
    Claim claim = t.claim(0, Mode::foreign_swap);
    claim.operation = {.compare = 0, .compare_mask = 0xff, .swap_add = 1, .mask = 0xff};
    return claim;
  };
  t.store(0, 0xabcd00);
  t.ask(*p[0], {foreign()});
  t.ask(*p[1], {foreign()});
  EXPECT_EQ(t.words[0], 0xabcd01u);
  const wire::LockOperation release{
      .compare = 1, .compare_mask = 0xff, .swap_add = 0, .mask = 0xff};
  EXPECT_FALSE(t.table.perform(
      p[0]->waiter, {.compare = 2, .compare_mask = 0xff, .swap_add = 0, .mask = 0xff}, false));
  EXPECT_EQ(t.words[0], 0xabcd01u);
  t.ask(*p[0], {t.claim(9)});  // its place in the count of what is held
  t.store(0, 0xabce00);
  t.table.note_write(reinterpret_cast<const std::byte*>(&t.words[0]), 1);
  t.table.run();
  EXPECT_EQ(t.grants, "aab");
  EXPECT_EQ(t.words[0], 0xabce01u);
  EXPECT_TRUE(t.table.perform(p[1]->waiter, release, false));
  EXPECT_EQ(t.words[0], 0xabce00u);
}

TEST(LockTable, ARegionInUseIsNotDetached) {
  Table t;
  const auto p = t.several(2);
  t.ask_exclusive(*p[0], 0);
  EXPECT_FALSE(t.table.detach(t.region)) << "held";
  t.give_back(*p[0]);
  EXPECT_TRUE(t.table.detach(t.region));
  EXPECT_EQ(t.table.find(&t.words[0]), nullptr);
  t.table.attach(t.region);
  EXPECT_EQ(t.table.find(&t.words[0]), &t.region);
  EXPECT_EQ(t.table.find(&t.words[63]), &t.region);
  EXPECT_EQ(t.table.find(reinterpret_cast<const std::byte*>(&t.words[63]) + 1), nullptr);
  t.store(1, kHeldElsewhere);
  t.ask_exclusive(*p[1], 1);
  EXPECT_FALSE(t.table.detach(t.region)) << "waited for";
  t.table.leave(p[1]->waiter);
  EXPECT_TRUE(t.table.detach(t.region));
}

/// A request that waits for a word of one region may want another's besides.
TEST(LockTable, ARegionThatAWaiterWantsLaterIsNotDetached) {
  Table t;
  std::array<std::uint64_t, 4> more{};
  Region other(more.data(), sizeof more, {});
  t.table.attach(other);
  Party& a = t.party();
  t.store(0, kHeldElsewhere);
  t.ask(a, {t.claim(0), {.word = &more[1], .region = &other, .owner = 1}});
  ASSERT_TRUE(LockWord::from(more[1]).is_free());
  EXPECT_FALSE(t.table.detach(other));
  t.table.leave(a.waiter);
  EXPECT_TRUE(t.table.detach(other));
}

/// LK-34: every number, of a small history.
TEST(LockTable, CountsWhatHappens) {
  Table t;
  const auto p = t.several(3);
  const auto& s = t.region.statistics();
  t.ask_exclusive(*p[0], 0);                 // granted at once
  t.ask_exclusive(*p[1], 0);                 // waits
  t.ask(*p[2], {t.claim(0)}, {.tries = 1});  // fails
  t.now_ns += 20'000;                        // no retry yet
  t.give_back(*p[0]);                        // granted after a wait
  t.give_back(*p[1]);
  EXPECT_EQ(s.grants.load(), 2u);
  EXPECT_EQ(s.immediate_grants.load(), 1u);
  EXPECT_EQ(s.waits.load(), 1u);
  EXPECT_EQ(s.failures.load(), 1u);
  EXPECT_EQ(s.iterations.load(), 4u);
  EXPECT_EQ(s.max_wait_ns.load(), 20'000u);
  t.ask_exclusive(*p[0], 0);
  EXPECT_EQ(s.max_wait_ns.load(), 20'000u) << "the longest";
  t.give_back(*p[0]);
}

/// Any order of requests of one to three words, readers and writers, by a model of who holds what:
/// never two who exclude each other, tokens of each word increase, and in the end all have had it.
TEST(LockTable, RandomOrderAgainstAModel) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 40; ++round) {
    Table t;
    constexpr std::size_t kWords = 5;
    const auto parties = t.several(2 + static_cast<int>(random() % 9));
    struct Holders {
      int readers = 0;
      int writers = 0;
      std::uint64_t token = 0;
    };
    std::array<Holders, kWords> model{};
    std::vector<Party*> idle = parties;
    std::vector<Party*> holding;
    const auto index_of = [&](const Claim& claim) {
      return static_cast<std::size_t>(claim.word - t.words.data());
    };
    const auto is_right = [&](Party& party) {
      for (const Claim& claim : party.waiter.claims()) {
        Holders& word = model[index_of(claim)];
        (claim.mode == Mode::shared ? word.readers : word.writers) += 1;
        EXPECT_TRUE(word.writers == 0 || word.writers + word.readers == 1);
        EXPECT_GT(claim.token, word.token);
        word.token = claim.token;
      }
    };
    for (Party* one : parties) {
      one->when_granted = [&, one] {
        is_right(*one);
        holding.push_back(one);
      };
    }
    const auto release = [&](std::size_t which) {
      Party* one = holding[which];
      holding.erase(holding.begin() + static_cast<std::ptrdiff_t>(which));
      for (const Claim& claim : one->waiter.claims()) {
        Holders& word = model[index_of(claim)];
        (claim.mode == Mode::shared ? word.readers : word.writers) -= 1;
      }
      EXPECT_TRUE(t.table.give_back(one->waiter));
      if (random() % 4 != 0) t.table.run();  // else together with others
      idle.push_back(one);
    };
    for (int step = 0; step < 400 && !testing::Test::HasFailure(); ++step) {
      const auto kind = random() % 8;
      if (kind < 4 && !idle.empty()) {
        Party* one = idle[random() % idle.size()];
        std::erase(idle, one);
        std::vector<Claim> claims;
        const std::size_t first = random() % kWords;
        for (std::size_t i = 0, count = 1 + random() % 3; i < count; ++i) {
          claims.push_back(t.claim((first + i) % kWords,
                                   random() % 2 == 0 ? Mode::shared : Mode::exclusive,
                                   static_cast<std::uint16_t>(one->name)));
        }
        t.ask(*one, claims, {.fifo = random() % 4 != 0});
      } else if (kind < 7 && !holding.empty()) {
        release(random() % holding.size());
      } else if (kind == 7) {
        Party* one = parties[random() % parties.size()];
        if (one->waiter.waits()) {
          t.table.leave(one->waiter);
          idle.push_back(one);
        } else {
          t.one_retry();
        }
      }
    }
    // A release, and the looks of one retry time, are enough for the next one.
    while (!t.table.idle() || !holding.empty()) {
      if (!holding.empty()) release(holding.size() - 1);
      t.one_retry();
      ASSERT_TRUE(!holding.empty() || t.table.idle());
    }
    EXPECT_EQ(idle.size(), parties.size());
    EXPECT_TRUE(t.table.idle());
    for (std::size_t i = 0; i < kWords; ++i) {
      EXPECT_TRUE(t.word(i).is_free());
      EXPECT_EQ(t.word(i).flags, 0);
    }
    EXPECT_TRUE(t.table.detach(t.region));
    t.table.attach(t.region);
  }
}

}  // namespace
}  // namespace rockhopper::test::lock_table_test
