// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Locks at the target, packet by packet: granted, waited for, failed, released, asked for again.
// What goes wrong is in lock_responder_fault_test.cc.
#include <algorithm>

#include "roce/wire/timer_code.h"
#include "tests/unit/roce/lock_rig.h"

namespace rockhopper::test::lock_responder_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::lock::LockWord;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Lketh;
using wire::LockCause;
using wire::LockStatus;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = LockRig::kPsn;
constexpr std::uint32_t kOther = 0x600000;  ///< first PSN of another connection
constexpr std::size_t kRecord = 4096;
constexpr std::uint64_t kTickNs = 1024;
constexpr std::uint64_t kRetryNs = 50'000;
constexpr std::uint8_t kStoreForward = Lketh::kStoreForward | Lketh::kFifo;

Payload little_endian(std::uint64_t value) {
  Payload bytes;
  for (unsigned i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  }
  return bytes;
}

/// LK-1, LK-4, LK-33: a lock that is held by itself. LK-30: tokens increase.
TEST(LockResponder, GrantsAndReleases) {
  LockRig rig;
  std::uint64_t token = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint64_t before = rig.cell(0);
    rig.inject(rig.acquire(kPsn + 2 * i));
    auto sent = rig.sent();
    ASSERT_THAT(sent, ElementsAre(IsGranted(kPsn + 2 * i)));
    EXPECT_EQ(sent[0].headers.lkaeth.scope_id, 7u);
    EXPECT_EQ(sent[0].headers.lkaeth.previous_word, before);
    EXPECT_EQ(sent[0].headers.lkaeth.msn, 2 * i + 1);
    EXPECT_GT(sent[0].headers.lkaeth.value, token);
    token = sent[0].headers.lkaeth.value;
    EXPECT_EQ(rig.word(), (LockWord{i, LockWord::State::exclusive, LockWord::kLeased, 0x51, 0}));
    rig.inject(rig.release(kPsn + 2 * i + 1));
    sent = rig.sent();
    ASSERT_THAT(sent, ElementsAre(IsReleased(kPsn + 2 * i + 1)));
    EXPECT_EQ(sent[0].headers.lkaeth.value, token);
    EXPECT_EQ(rig.word(), (LockWord{i + 1, LockWord::State::free, 0, 0, 0}));
  }
}

/// LK-13.
TEST(LockResponder, ReadersShare) {
  LockRig rig;
  auto& other = rig.connect(kOther);
  const Ask shared{.subtype = Lketh::kAcquireShared};
  rig.inject(rig.acquire(kPsn, shared));
  rig.to(other, rig.acquire(kOther, shared));
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsGranted(kOther)));
  EXPECT_EQ(rig.word().readers, 2);
  rig.inject(rig.release(kPsn + 1));
  EXPECT_EQ(rig.word().readers, 1);
  rig.to(other, rig.release(kOther + 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsReleased(kPsn + 1), IsReleased(kOther + 1)));
  EXPECT_TRUE(rig.word().is_free());
}

std::vector<Packet> scope(const LockRig& rig, std::uint32_t psn, std::uint8_t flags,
                          std::uint8_t seed = 5) {
  return {rig.acquire(psn, {.psns = 5, .flags = flags}),
          rig.write(psn + 1, kRecord, pattern(40, seed)), rig.read(psn + 2, kRecord, 500),
          rig.add(psn + 4, kRecord + 64, 3), rig.release(psn + 5)};
}

/// LK-5, LK-6, LK-12, LK-24: a READ of two packets and an atomic between WRITE and release.
TEST(LockResponder, AScopeInOneBurst) {
  for (const std::uint8_t flags : {Lketh::kFifo, kStoreForward}) {
    LockRig rig;
    rig.poke(kRecord, pattern(600, 1));
    Payload expected = pattern(500, 1);
    std::ranges::copy(pattern(40, 5), expected.begin());
    const std::uint64_t counter = rig.cell(kRecord + 64);
    rig.inject_all(scope(rig, kPsn, flags));
    const auto sent = rig.sent();
    ASSERT_THAT(
        sent, ElementsAre(IsGranted(kPsn), IsPacket(Opcode::rc_rdma_read_response_first, kPsn + 2),
                          IsPacket(Opcode::rc_rdma_read_response_last, kPsn + 3),
                          IsAtomicAck(kPsn + 4, counter), IsReleased(kPsn + 5)));
    Payload read = sent[1].payload;
    read.insert(read.end(), sent[2].payload.begin(), sent[2].payload.end());
    EXPECT_EQ(read, expected) << "as the lock was held: with the WRITE, without the atomic";
    EXPECT_EQ(rig.cell(kRecord + 64), counter + 3);
    EXPECT_EQ(rig.data(kRecord, 40), pattern(40, 5));
    EXPECT_EQ(rig.word(), (LockWord{1, LockWord::State::free, 0, 0, 0}));
  }
}

/// LK-29: nothing of it happens before all of it is there.
TEST(LockResponder, StoreAndForwardTakesNoLockBeforeTheReleaseIsThere) {
  LockRig rig;
  const auto packets = scope(rig, kPsn, kStoreForward);
  const Payload before = rig.data(0, 8192);
  for (std::size_t i = 0; i + 1 < packets.size(); ++i) {
    rig.inject(packets[i]);
    EXPECT_THAT(rig.sent(), IsEmpty());
    EXPECT_EQ(rig.data(0, 8192), before);
  }
  rig.inject(packets.back());
  EXPECT_EQ(rig.sent().size(), 5u);
  EXPECT_EQ(rig.data(kRecord, 40), pattern(40, 5));
}

/// The initiator ends half-way: then nothing has happened, and the connection is not stuck.
TEST(LockResponder, StoreAndForwardGivesUpWhenTheRestDoesNotCome) {
  LockRig rig(LockRig::with_locks(), {.max_lease_us = 1000});
  const auto packets = scope(rig, kPsn, kStoreForward);
  rig.inject_all({packets[0], packets[1]});
  rig.advance(1'000'000 + kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn, LockCause::wait), IsAck(kPsn + 1, 2u)));
  EXPECT_EQ(rig.data(kRecord, 40), Payload(40));
  EXPECT_EQ(rig.cell(0), 0u);
}

TEST(LockResponder, CutThroughIsGrantedAtOnce) {
  LockRig rig;
  rig.inject(scope(rig, kPsn, Lketh::kFifo)[0]);
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn)));
  EXPECT_FALSE(rig.word().is_free());
}

/// LK-7, LK-15, LK-25: what is behind an acquire that waits, waits with it, and nobody else does.
TEST(LockResponder, WaitsWithItsScopeAndIsExecutedAtTheRelease) {
  for (const std::uint8_t flags : {Lketh::kFifo, kStoreForward}) {
    LockRig rig;
    auto& other = rig.connect(kOther);
    rig.to(other, rig.acquire(kOther, {.id = 1, .owner = 9}));
    EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kOther)));
    rig.inject_all(scope(rig, kPsn, flags));
    auto sent = rig.sent();
    ASSERT_THAT(sent, ElementsAre(IsSignOfLife(kPsn)));
    EXPECT_EQ(sent[0].headers.lkaeth.scope_id, 7u);
    EXPECT_EQ(sent[0].headers.lkaeth.value, 1u);
    EXPECT_EQ(LockWord::from(sent[0].headers.lkaeth.previous_word).owner, 9);
    EXPECT_EQ(rig.data(kRecord, 40), Payload(40));
    EXPECT_TRUE(rig.word().has_waiters());
    // The other connection goes on, and another word of this one's would.
    rig.to(other, rig.write(kOther + 1, kRecord + 512, pattern(8)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kOther + 1, 2u)));
    rig.to(other, rig.release(kOther + 2, 1));
    sent = rig.sent();
    EXPECT_EQ(sent.size(), 6u);
    EXPECT_THAT(sent, testing::IsSupersetOf({testing::Matcher<Packet>(IsReleased(kOther + 2)),
                                             testing::Matcher<Packet>(IsGranted(kPsn)),
                                             testing::Matcher<Packet>(IsReleased(kPsn + 5))}));
    EXPECT_EQ(rig.data(kRecord, 40), pattern(40, 5));
    EXPECT_EQ(rig.word(), (LockWord{2, LockWord::State::free, 0, 0, 0}));
    // What comes next comes in order.
    rig.inject(rig.write(kPsn + 6, kRecord, pattern(8)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn + 6, 6u)));
  }
}

/// Scopes of one connection, one behind the other, each of which has to wait.
TEST(LockResponder, SeveralScopesWaitBehindEachOther) {
  LockRig rig;
  rig.hold_elsewhere(0);
  rig.hold_elsewhere(8);
  rig.inject_all({rig.acquire(kPsn, {.id = 1, .psns = 2}), rig.write(kPsn + 1, kRecord, {1}),
                  rig.release(kPsn + 2, 1), rig.write(kPsn + 3, kRecord + 1, {2}),
                  rig.acquire(kPsn + 4, {.id = 2, .psns = 2, .flags = kStoreForward, .word = 8}),
                  rig.write(kPsn + 5, kRecord + 2, {3}), rig.release(kPsn + 6, 2),
                  rig.write(kPsn + 7, kRecord + 3, {4})});
  EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn)));
  rig.poke(0, 0);
  rig.advance(kRetryNs + 2 * kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsReleased(kPsn + 2), IsSignOfLife(kPsn + 4),
                                      IsAck(kPsn + 3, 4u)));
  EXPECT_EQ(rig.data(kRecord, 4), (Payload{1, 2, 0, 0}));
  rig.poke(8, 0);
  rig.advance(kRetryNs + 2 * kTickNs);
  EXPECT_THAT(rig.sent(),
              ElementsAre(IsGranted(kPsn + 4), IsReleased(kPsn + 6), IsAck(kPsn + 7, 8u)));
  EXPECT_EQ(rig.data(kRecord, 4), (Payload{1, 2, 3, 4}));
}

/// A sign of life comes at once and then twice in the peer's timeout.
TEST(LockResponder, SignsOfLife) {
  LockRig rig;
  rig.hold_elsewhere();
  rig.inject(rig.acquire(kPsn, {.timeout = 10}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn)));
  const std::uint64_t half_ns = wire::local_ack_timeout_ns(10) / 2;
  for (int i = 0; i < 4; ++i) {
    rig.advance(half_ns - 3 * kTickNs);
    EXPECT_THAT(rig.sent(), IsEmpty());
    rig.advance(4 * kTickNs);
    EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn)));
  }
}

/// LK-8, LK-9, LK-20: T looks, one failure; the word, what it guards and its holder are untouched.
TEST(LockResponder, TriesAreExact) {
  for (std::uint16_t tries = 0; tries <= 50; ++tries) {
    LockRig rig;
    rig.hold_elsewhere();
    const std::uint64_t held = rig.cell(0);
    rig.inject_all({rig.acquire(kPsn, {.psns = 2, .tries = tries}),
                    rig.write(kPsn + 1, kRecord, pattern(8)), rig.release(kPsn + 2)});
    std::vector<Packet> answers;
    for (unsigned i = 0; i < 60; ++i) {
      for (Packet& one : rig.sent()) {
        if (one.headers.lkaeth.status != LockStatus::waiting) answers.push_back(std::move(one));
      }
      rig.advance(kRetryNs + 2 * kTickNs);
    }
    ASSERT_THAT(answers, ElementsAre(IsFailed(kPsn, LockCause::tries), IsFlushed(kPsn + 2)));
    EXPECT_EQ(answers[0].headers.lkaeth.value, tries);
    EXPECT_EQ(rig.statistics().iterations.load(), tries);
    EXPECT_EQ(rig.statistics().failures.load(), 1u);
    EXPECT_EQ(rig.cell(0), held);
    EXPECT_EQ(rig.data(kRecord, 8), Payload(8));
    rig.inject(rig.write(kPsn + 3, kRecord, pattern(8)));
    ASSERT_THAT(rig.sent(), ElementsAre(IsAck(kPsn + 3, 4u)));
  }
}

/// LK-9: by time.
TEST(LockResponder, WaitsAsLongAsItMay) {
  for (const std::uint32_t wait_us : {0u, 10u, 1000u, 100'000u}) {
    LockRig rig;
    rig.hold_elsewhere();
    const std::uint64_t held = rig.cell(0);
    const std::uint64_t begin_ns = rig.now_ns();
    rig.inject(rig.acquire(kPsn, {.wait_us = wait_us}));
    while (rig.statistics().failures.load() == 0 && rig.now_ns() < begin_ns + 1'000'000'000) {
      rig.advance(2 * kTickNs);
      (void)rig.sent();
    }
    const std::uint64_t waited_ns = rig.now_ns() - begin_ns;
    EXPECT_GE(waited_ns, wait_us * std::uint64_t{1000} * (wait_us != 0 ? 1 : 0));
    EXPECT_LE(waited_ns, wait_us * std::uint64_t{1000} + 4 * kTickNs);
    EXPECT_EQ(rig.cell(0), held);
    rig.inject(rig.acquire(kPsn));
    EXPECT_THAT(rig.sent(), testing::Contains(IsFailed(kPsn, LockCause::wait)));
  }
}

Packet masked_add(const LockRig& rig, std::uint32_t psn, std::size_t offset) {
  Packet result = packet(Opcode::extended_atomic, psn);
  result.headers.xaeth = {.subtype = wire::Xaeth::kMaskedFetchAdd,
                          .rkey = rig.lock_rkey(),
                          .va = rig.lock_va(offset),
                          .swap_add = 1,
                          .mask = 0};
  return result;
}

/// LK-20: every kind of request that a scope can have.
TEST(LockResponder, AFailedScopeIsNotExecuted) {
  ConnectionOptions options = LockRig::with_locks({.extended_atomics = true});
  for (const std::uint8_t flags : {Lketh::kFifo, kStoreForward}) {
    LockRig rig(options);
    rig.hold_elsewhere();
    const Payload before = rig.data(0, 16384);
    const auto reth = rig.reth_of(kRecord, 600);
    Packet flush = packet(Opcode::rc_flush, kPsn + 9);
    flush.headers.feth.placement_type = wire::Feth::kGlobalVisibility;
    flush.headers.reth = rig.reth_of(kRecord, 8);
    rig.inject_all({
        rig.acquire(kPsn, {.psns = 12, .flags = flags, .wait_us = 0}),
        write_packet(Opcode::rc_rdma_write_first, kPsn + 1, reth, pattern(256)),
        packet(Opcode::rc_rdma_write_middle, kPsn + 2, pattern(256), false),
        packet(Opcode::rc_rdma_write_last, kPsn + 3, pattern(88)),
        rig.read(kPsn + 4, kRecord, 600),
        rig.add(kPsn + 7, kRecord, 1),
        compare_swap(kPsn + 8, rig.lock_va(kRecord), rig.lock_rkey(), 0, 1),
        flush,
        write_packet(Opcode::rc_atomic_write, kPsn + 10, rig.reth_of(kRecord, 8), pattern(8)),
        masked_add(rig, kPsn + 11, kRecord),
        rig.release(kPsn + 12),
    });
    EXPECT_THAT(rig.sent(),
                ElementsAre(IsFailed(kPsn, LockCause::wait), IsFlushed(kPsn + 4),
                            IsFlushed(kPsn + 7), IsFlushed(kPsn + 8), IsFlushed(kPsn + 9),
                            IsFlushed(kPsn + 10), IsFlushed(kPsn + 11), IsFlushed(kPsn + 12)));
    EXPECT_EQ(rig.data(0, 16384), before);
    EXPECT_EQ(rig.counters().rx_read_requests.value(), 0u);
    EXPECT_EQ(rig.counters().rx_atomic_requests.value(), 0u);
    EXPECT_EQ(rig.counters().rx_flush_requests.value(), 0u);
    EXPECT_EQ(rig.qp().state(), QpState::rts);
    // LK-22: asked for again, it is not executed either, not even when the word is free by then.
    rig.poke(0, 0);
    rig.inject(rig.acquire(kPsn, {.psns = 12, .flags = flags, .wait_us = 0}));
    rig.inject(rig.read(kPsn + 4, kRecord, 600));
    rig.inject(rig.add(kPsn + 7, kRecord, 1));
    rig.inject(write_packet(Opcode::rc_atomic_write, kPsn + 10, rig.reth_of(kRecord, 8), {1}));
    rig.inject(rig.release(kPsn + 12));
    EXPECT_THAT(rig.sent(),
                testing::IsSupersetOf({testing::Matcher<Packet>(IsFailed(kPsn, LockCause::wait)),
                                       testing::Matcher<Packet>(IsFlushed(kPsn + 4)),
                                       testing::Matcher<Packet>(IsFlushed(kPsn + 12))}));
    EXPECT_EQ(rig.cell(0), 0u);
    EXPECT_EQ(rig.data(8, 16000), Payload(before.begin() + 8, before.begin() + 16008));
    // The queue pair goes on: the next scope is executed.
    rig.inject_all(scope(rig, kPsn + 13, flags));
    EXPECT_THAT(rig.sent(), testing::Contains(IsReleased(kPsn + 18)));
    EXPECT_EQ(rig.data(kRecord, 40), pattern(40, 5));
  }
}

/// LK-20: all WRITEs of a failed scope are acknowledged, so that the requester goes on.
TEST(LockResponder, AFailedScopesWritesAreAcknowledged) {
  LockRig rig;
  rig.hold_elsewhere();
  rig.inject_all({rig.acquire(kPsn, {.psns = 3, .wait_us = 0}), rig.write(kPsn + 1, kRecord, {1}),
                  rig.write(kPsn + 2, kRecord, {2})});
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn, LockCause::wait), IsAck(kPsn + 2, 3u)));
}

/// LK-21: a release by who does not hold the lock, in every way, and as often as it comes.
TEST(LockResponder, AForeignReleaseChangesNothing) {
  LockRig rig;
  auto& other = rig.connect(kOther);
  rig.inject(rig.acquire(kPsn));
  (void)rig.sent();
  const std::uint64_t held = rig.cell(0);
  for (std::uint32_t i = 0; i < 3; ++i) {
    rig.to(other, rig.release(kOther + i));  // the same id and owner
    EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kOther + i, LockCause::not_owner)));
    EXPECT_EQ(rig.cell(0), held);
  }
  for (std::uint32_t i = 1; i <= 3; ++i) {
    rig.inject(rig.release(kPsn + i, 8));  // of another id, by the holder
    const auto sent = rig.sent();
    ASSERT_THAT(sent, ElementsAre(IsFailed(kPsn + i, LockCause::not_owner)));
    EXPECT_EQ(sent[0].headers.lkaeth.scope_id, 8u);
    EXPECT_EQ(rig.cell(0), held);
  }
  rig.inject(rig.release(kPsn + 4));
  EXPECT_THAT(rig.sent(), ElementsAre(IsReleased(kPsn + 4)));
  const std::uint64_t free = rig.cell(0);
  rig.inject(rig.release(kPsn + 5));
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn + 5, LockCause::not_owner)));
  EXPECT_EQ(rig.cell(0), free);
}

/// LK-21: the word has been given to somebody else meanwhile.
TEST(LockResponder, AWordThatHasChangedHandsIsNotReleased) {
  LockRig rig;
  rig.inject(rig.acquire(kPsn));
  (void)rig.sent();
  // The same name, a later generation.
  rig.poke(0, (LockWord{1, LockWord::State::exclusive, LockWord::kLeased, 0x51, 0}).value());
  const std::uint64_t held = rig.cell(0);
  rig.inject(rig.release(kPsn + 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn + 1, LockCause::not_owner)));
  EXPECT_EQ(rig.cell(0), held);
  EXPECT_EQ(rig.statistics().foreign_releases.load(), 1u);
  rig.inject(rig.acquire(kPsn + 2, {.wait_us = 0}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn + 2, LockCause::wait)));
}

/// LK-22, LK-23: all of a finished scope once more, though somebody else has the lock and has
/// changed what it guards: the same answers, and nothing is executed.
TEST(LockResponder, DuplicatesAreAnsweredAsBefore) {
  for (const std::uint8_t flags : {Lketh::kFifo, kStoreForward}) {
    LockRig rig;
    rig.poke(kRecord, pattern(600, 1));
    const auto packets = scope(rig, kPsn, flags);
    rig.inject_all(packets);
    const auto first = rig.sent();
    ASSERT_EQ(first.size(), 5u);
    // By another thread of the same owner.
    rig.poke(0, (LockWord{1, LockWord::State::exclusive, LockWord::kLeased, 0x51, 0}).value());
    rig.poke(kRecord, pattern(600, 99));
    const Payload after = rig.data(0, 8192);
    for (int round = 0; round < 2; ++round) {
      rig.inject_all(packets);
      std::vector<Packet> again = rig.sent();
      std::erase_if(again,
                    [](const Packet& one) { return one.opcode() == Opcode::rc_acknowledge; });
      ASSERT_EQ(again.size(), first.size());
      for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(again[i].opcode(), first[i].opcode());
        EXPECT_EQ(again[i].psn(), first[i].psn());
        EXPECT_EQ(again[i].payload, first[i].payload);
        EXPECT_EQ(again[i].headers.lkaeth, first[i].headers.lkaeth);
        EXPECT_EQ(again[i].headers.atomic_ack_eth.original,
                  first[i].headers.atomic_ack_eth.original);
      }
      EXPECT_EQ(rig.data(0, 8192), after);
    }
    EXPECT_EQ(rig.statistics().grants.load(), 1u);
    EXPECT_EQ(rig.counters().rx_write_requests.value(), 1u);
    EXPECT_EQ(rig.counters().rx_atomic_requests.value(), 1u);
  }
}

/// LK-23: also from the middle of the READ on.
TEST(LockResponder, ARepeatedReadFromTheMiddleIsThatOfTheScope) {
  LockRig rig;
  rig.poke(kRecord, pattern(1000, 1));
  rig.inject_all(
      {rig.acquire(kPsn, {.psns = 5}), rig.read(kPsn + 1, kRecord, 1000), rig.release(kPsn + 5)});
  EXPECT_EQ(rig.sent().size(), 6u);
  rig.poke(kRecord, pattern(1000, 2));
  rig.inject(rig.read(kPsn + 3, kRecord + 512, 488));
  const Payload was = pattern(1000, 1);
  EXPECT_THAT(rig.sent(), ElementsAre(IsResponse(Opcode::rc_rdma_read_response_first, kPsn + 3,
                                                 Payload(was.begin() + 512, was.begin() + 768)),
                                      IsResponse(Opcode::rc_rdma_read_response_last, kPsn + 4,
                                                 Payload(was.begin() + 768, was.end()))));
}

/// LK-23: when what was read is kept no more there is no answer, and never a newer one.
TEST(LockResponder, ASnapshotThatHadToGoIsNotReplacedByMemory) {
  LockRig rig(LockRig::with_locks({.locks = {.snapshot_bytes = 4096, .max_scope_reads = 4096}}));
  const auto read_scope = [&](std::uint32_t psn, std::size_t at) {
    rig.inject_all({rig.acquire(psn, {.psns = 2}), rig.read(psn + 1, at, 8), rig.release(psn + 2)});
  };
  rig.poke(kRecord, 1);
  read_scope(kPsn, kRecord);
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsReadOnly(kPsn + 1, little_endian(1)),
                                      IsReleased(kPsn + 2)));
  read_scope(kPsn + 3, kRecord + 8);
  EXPECT_EQ(rig.sent().size(), 3u);
  rig.poke(kRecord, 2);
  rig.inject(rig.read(kPsn + 1, kRecord, 8));
  EXPECT_THAT(
      rig.sent(),
      testing::Not(testing::Contains(IsPacket(Opcode::rc_rdma_read_response_only, kPsn + 1))));
}

/// LK-22: while it waits.
TEST(LockResponder, DuplicatesOfWhatWaitsDrawASignOfLife) {
  LockRig rig;
  rig.hold_elsewhere();
  const auto packets = scope(rig, kPsn, Lketh::kFifo);
  rig.inject_all(packets);
  EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn)));
  rig.inject_all(packets);
  EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn)));
  EXPECT_EQ(rig.statistics().waits.load(), 1u);
  rig.poke(0, 0);
  rig.advance(kRetryNs + 2 * kTickNs);
  EXPECT_EQ(rig.sent().size(), 5u);
  EXPECT_EQ(rig.cell(kRecord + 64), 3u) << "the atomic was executed once";
}

/// A duplicate of what came before the acquire is answered while that waits.
TEST(LockResponder, EarlierDuplicatesAreAnsweredMeanwhile) {
  LockRig rig;
  rig.hold_elsewhere();
  rig.inject(rig.add(kPsn, kRecord, 5));
  rig.inject(rig.acquire(kPsn + 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, 0u), IsSignOfLife(kPsn + 1)));
  rig.inject(rig.add(kPsn, kRecord, 5));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, 0u)));
  EXPECT_EQ(rig.cell(kRecord), 5u);
}

/// LK-15, LK-16: who does not want to wait there is told to come again; each time is a try.
TEST(LockResponder, ResendModeAnswersWithItsRnrTimer) {
  ConnectionOptions options = LockRig::with_locks({.min_rnr_timer = 9});
  LockRig rig(options);
  rig.hold_elsewhere();
  const std::uint64_t held = rig.cell(0);
  const Ask ask{.psns = 2, .flags = Lketh::kFifo | Lketh::kResend, .tries = 4};
  for (int i = 0; i < 3; ++i) {
    rig.inject_all(
        {rig.acquire(kPsn, ask), rig.write(kPsn + 1, kRecord, {1}), rig.release(kPsn + 2)});
    EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, 9)));
    EXPECT_EQ(rig.cell(0), held) << "nobody waits there";
    rig.advance(10'000'000);
    EXPECT_THAT(rig.sent(), IsEmpty());
  }
  EXPECT_EQ(rig.statistics().iterations.load(), 3u);
  EXPECT_EQ(rig.statistics().waits.load(), 0u);
  rig.inject_all(
      {rig.acquire(kPsn, ask), rig.write(kPsn + 1, kRecord, {1}), rig.release(kPsn + 2)});
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn, LockCause::tries), IsFlushed(kPsn + 2)));
  EXPECT_EQ(rig.data(kRecord, 1), Payload{0});
}

TEST(LockResponder, ResendModeIsGrantedWhenItComesAgain) {
  LockRig rig;
  rig.hold_elsewhere();
  const Ask ask{.psns = 2, .flags = Lketh::kFifo | Lketh::kResend, .tries = 4};
  rig.inject(rig.acquire(kPsn, ask));
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, 12)));
  rig.poke(0, 0);
  rig.inject_all(
      {rig.acquire(kPsn, ask), rig.write(kPsn + 1, kRecord, {1}), rig.release(kPsn + 2)});
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsReleased(kPsn + 2)));
  EXPECT_EQ(rig.data(kRecord, 1), Payload{1});
  EXPECT_EQ(rig.statistics().immediate_grants.load(), 0u);
}

/// LK-9: the first of both limits, in this mode too.
TEST(LockResponder, ResendModeEndsByTime) {
  LockRig rig;
  rig.hold_elsewhere();
  const Ask ask{.flags = Lketh::kResend, .wait_us = 500};
  rig.inject(rig.acquire(kPsn, ask));
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, 12)));
  rig.advance(400'000);
  rig.inject(rig.acquire(kPsn, ask));
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, 12)));
  rig.advance(200'000);
  rig.inject(rig.acquire(kPsn, ask));
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn, LockCause::wait)));
}

/// LK-33: an acquire that waits is canceled, with its scope; others behind it are next.
TEST(LockResponder, CancelInTime) {
  for (const bool in_scope : {false, true}) {
    LockRig rig;
    auto& other = rig.connect(kOther);
    rig.hold_elsewhere();
    const std::uint32_t behind = in_scope ? 3 : 1;
    rig.inject(rig.acquire(kPsn, {.psns = static_cast<std::uint16_t>(behind - 1)}));
    if (in_scope) rig.inject_all({rig.write(kPsn + 1, kRecord, {1}), rig.release(kPsn + 2)});
    rig.to(other, rig.acquire(kOther));
    EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn), IsSignOfLife(kOther)));
    rig.inject(rig.cancel(kPsn + behind));
    const auto sent = rig.sent();
    EXPECT_THAT(
        sent, testing::IsSupersetOf({testing::Matcher<Packet>(IsFailed(kPsn, LockCause::canceled)),
                                     testing::Matcher<Packet>(IsLockAnswer(
                                         kPsn + behind, LockStatus::canceled, LockCause::none))}));
    EXPECT_EQ(rig.statistics().cancels.load(), 1u);
    EXPECT_EQ(rig.statistics().failures.load(), 1u);
    EXPECT_EQ(rig.data(kRecord, 1), Payload{0});
    rig.poke(0, rig.cell(0) & roce::lock::kWaitersBit);
    rig.advance(kRetryNs + 2 * kTickNs);
    EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kOther)));
  }
}

/// LK-33: too late, and the lock is still held.
TEST(LockResponder, CancelTooLate) {
  LockRig rig;
  rig.inject_all({rig.acquire(kPsn), rig.cancel(kPsn + 1)});
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsFailed(kPsn + 1, LockCause::too_late)));
  EXPECT_FALSE(rig.word().is_free());
  rig.inject(rig.cancel(kPsn + 2, 999));  // never asked for
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn + 2, LockCause::too_late)));
  rig.inject_all({rig.release(kPsn + 3), rig.cancel(kPsn + 4)});
  EXPECT_THAT(rig.sent(),
              ElementsAre(IsReleased(kPsn + 3), IsFailed(kPsn + 4, LockCause::too_late)));
  EXPECT_EQ(rig.statistics().cancels.load(), 0u);
}

/// A cancel of another id is no cancel of this one.
TEST(LockResponder, CancelOfAnotherIdWaitsForItsTurn) {
  LockRig rig;
  rig.hold_elsewhere();
  rig.inject_all({rig.acquire(kPsn), rig.cancel(kPsn + 1, 6)});
  EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn)));
  rig.poke(0, 0);
  rig.advance(kRetryNs + 2 * kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsFailed(kPsn + 1, LockCause::too_late)));
}

/// LK-32: several words, in one request.
TEST(LockResponder, SeveralWords) {
  LockRig rig;
  Packet request = rig.acquire(kPsn, {.subtype = Lketh::kAcquireSeveral, .word = 64});
  request.payload = payload_of<wire::LockWord>(
      {{.rkey = rig.lock_rkey(), .shared = true, .va = rig.lock_va(128)},
       {.rkey = rig.lock_rkey(), .shared = false, .va = rig.lock_va(0)}});
  rig.hold_elsewhere(0);
  rig.inject(request);
  EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn)));
  EXPECT_TRUE(rig.word(64).is_free());
  EXPECT_TRUE(rig.word(128).is_free());
  rig.poke(0, 0);
  rig.advance(kRetryNs + 2 * kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn)));
  EXPECT_EQ(rig.word(0).state, LockWord::State::exclusive);
  EXPECT_EQ(rig.word(64).state, LockWord::State::exclusive);
  EXPECT_EQ(rig.word(128).readers, 1);
  rig.inject(rig.release(kPsn + 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsReleased(kPsn + 1)));
  for (const std::size_t i : {0u, 64u, 128u}) {
    EXPECT_TRUE(rig.word(i).is_free());
  }
}

/// LK-27: a WRITE or an atomic by another connection that frees the word is seen at once.
TEST(LockResponder, AWriteToTheWordWakesItsWaiters) {
  for (const bool atomic : {false, true}) {
    LockRig rig;
    auto& other = rig.connect(kOther);
    rig.poke(0, std::uint64_t{1} << 36);  // exclusive, of owner 0
    rig.inject(rig.acquire(kPsn));
    EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kPsn)));
    rig.to(other, atomic ? rig.add(kOther, 0, -(std::uint64_t{1} << 36))
                         : rig.write(kOther, 0, Payload(8)));
    EXPECT_THAT(rig.sent(), testing::Contains(IsGranted(kPsn)));
  }
}

wire::LockOperation foreign_swap(std::uint64_t from, std::uint64_t to) {
  return {.compare = from, .compare_mask = 0xff, .swap_add = to, .mask = 0xff};
}

Packet foreign(const LockRig& rig, std::uint32_t psn, std::uint8_t subtype,
               const wire::LockOperation& operation, std::uint8_t flags = Lketh::kFifo) {
  Packet result = rig.acquire(psn, {.flags = flags, .subtype = subtype});
  result.payload = payload_of<wire::LockOperation>({operation});
  return result;
}

/// LK-14: the caller's own encoding; the other bits of the word stay as they are.
TEST(LockResponder, ForeignWordsBySwap) {
  LockRig rig;
  rig.poke(0, 0x1122334455667700);
  rig.inject(foreign(rig, kPsn, Lketh::kAcquireForeign, foreign_swap(0, 0x5a)));
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsGranted(kPsn)));
  EXPECT_EQ(sent[0].headers.lkaeth.previous_word, 0x1122334455667700u);
  EXPECT_EQ(rig.cell(0), 0x112233445566775au);
  auto& other = rig.connect(kOther);
  rig.to(other, foreign(rig, kOther, Lketh::kAcquireForeign, foreign_swap(0, 0x5b)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kOther)));
  EXPECT_EQ(rig.cell(0), 0x112233445566775au) << "no mark of ours in it";
  rig.poke(0, 0xffeeddccbbaa995a);  // flags of the application, flipped meanwhile
  rig.inject(foreign(rig, kPsn + 1, Lketh::kReleaseForeign, foreign_swap(0x5a, 0)));
  EXPECT_THAT(rig.sent(), testing::UnorderedElementsAre(IsReleased(kPsn + 1), IsGranted(kOther)));
  EXPECT_EQ(rig.cell(0), 0xffeeddccbbaa995bu);
}

/// LK-14: a counter of holders under a mask.
TEST(LockResponder, ForeignWordsByAdd) {
  LockRig rig;
  auto& other = rig.connect(kOther);
  rig.poke(0, 0xabcd00ff);
  // At most one in the second byte: compares it with 0, adds 1 to it alone.
  const wire::LockOperation take{
      .compare = 0, .compare_mask = 0xff00, .swap_add = 0x100, .mask = 0x8080};
  const wire::LockOperation give{
      .compare = 0x100, .compare_mask = 0xff00, .swap_add = 0xff00, .mask = 0x8080};
  const std::uint8_t add = Lketh::kFifo | Lketh::kAdd;
  rig.inject(foreign(rig, kPsn, Lketh::kAcquireForeign, take, add));
  EXPECT_EQ(rig.cell(0), 0xabcd01ffu);
  rig.to(other, foreign(rig, kOther, Lketh::kAcquireForeign, take, add));
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsSignOfLife(kOther)));
  rig.inject(foreign(rig, kPsn + 1, Lketh::kReleaseForeign, give, add));
  EXPECT_THAT(rig.sent(), testing::UnorderedElementsAre(IsReleased(kPsn + 1), IsGranted(kOther)));
  EXPECT_EQ(rig.cell(0), 0xabcd01ffu);
}

/// LK-21 for foreign words: the condition of the release is its check.
TEST(LockResponder, AForeignWordThatHasChangedIsNotReleased) {
  LockRig rig;
  rig.inject(foreign(rig, kPsn, Lketh::kAcquireForeign, foreign_swap(0, 0x5a)));
  rig.poke(0, 0x77);
  rig.inject(foreign(rig, kPsn + 1, Lketh::kReleaseForeign, foreign_swap(0x5a, 0)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsFailed(kPsn + 1, LockCause::not_owner)));
  EXPECT_EQ(rig.cell(0), 0x77u);
}

/// LK-34: all numbers of a history of two connections.
TEST(LockResponder, Statistics) {
  LockRig rig;
  auto& other = rig.connect(kOther);
  rig.inject(rig.acquire(kPsn));                     // granted at once
  rig.to(other, rig.acquire(kOther, {.tries = 3}));  // waits, fails by tries
  rig.advance(kRetryNs + 2 * kTickNs);
  (void)rig.sent();
  rig.advance(kRetryNs + 2 * kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kOther, LockCause::tries)));
  rig.to(other, rig.acquire(kOther + 1));  // waits, granted
  rig.advance(20'000);
  rig.inject(rig.release(kPsn + 1));
  rig.to(other, rig.release(kOther + 2));
  (void)rig.sent();
  const auto& s = rig.statistics();
  EXPECT_EQ(s.grants.load(), 2u);
  EXPECT_EQ(s.immediate_grants.load(), 1u);
  EXPECT_EQ(s.waits.load(), 2u);
  EXPECT_EQ(s.failures.load(), 1u);
  EXPECT_EQ(s.iterations.load(), 1u + 3u + 2u);
  EXPECT_EQ(s.max_wait_ns.load(), 20'000u);
  EXPECT_EQ(
      s.lease_expiries.load() + s.cancels.load() + s.aborts.load() + s.foreign_releases.load(), 0u);
  EXPECT_EQ(rig.counters().rx_lock_requests.value(), 3u);
}

}  // namespace
}  // namespace rockhopper::test::lock_responder_test
