// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Locks at the target when something goes wrong: requests that are refused, no room, gaps, ends of
// leases and connections.
#include "tests/unit/roce/lock_rig.h"

namespace rockhopper::test::lock_responder_fault_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::lock::LockWord;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Lketh;
using wire::LockCause;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = LockRig::kPsn;
constexpr std::uint32_t kOther = 0x600000;  ///< first PSN of another connection
constexpr std::uint32_t kThird = 0xa00000;
constexpr std::size_t kRecord = 4096;
constexpr std::uint64_t kTickNs = 1024;
constexpr std::uint64_t kRetryNs = 50'000;
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint8_t kStoreForward = Lketh::kStoreForward | Lketh::kFifo;

void next_retry(LockRig& rig) { rig.advance(kRetryNs + 2 * kTickNs); }

/// LK-29: at the end of the lease the lock is free with a new generation, and who waits has it.
TEST(LockLease, EndsAndFreesTheLock) {
  LockRig rig;
  auto& other = rig.connect(kOther);
  rig.inject(rig.acquire(kPsn, {.lease_us = 2000}));
  rig.to(other, rig.acquire(kOther, {.owner = 0x52}));
  (void)rig.sent();
  rig.advance(2 * kMs - 2 * kTickNs);
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(4 * kTickNs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kOther)));
  EXPECT_EQ(rig.word(), (LockWord{1, LockWord::State::exclusive, LockWord::kLeased, 0x52, 0}));
  EXPECT_EQ(rig.statistics().lease_expiries.load(), 1u);
  // Its release comes late, as often as it does.
  const std::uint64_t held = rig.cell(0);
  for (std::uint32_t i = 1; i <= 2; ++i) {
    rig.inject(rig.release(kPsn + i));
    EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn + i, LockCause::expired)));
    EXPECT_EQ(rig.cell(0), held);
  }
}

/// LK-29: in time it is no matter.
TEST(LockLease, AReleaseInTimeEndsIt) {
  LockRig rig;
  rig.inject(rig.acquire(kPsn, {.lease_us = 2000}));
  rig.advance(2 * kMs - 2 * kTickNs);
  rig.inject(rig.release(kPsn + 1));
  rig.advance(10 * kMs);
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsReleased(kPsn + 1)));
  EXPECT_EQ(rig.word().generation, 1u);
  EXPECT_EQ(rig.statistics().lease_expiries.load(), 0u);
}

/// Who asks for none has the region's; nobody has more than its most.
TEST(LockLease, IsTheRegionsOrAsAskedForUpToItsMost) {
  struct Case {
    std::uint32_t asked_us;
    std::uint64_t given_ns;
  };
  for (const Case one :
       {Case{0, 3 * kMs}, Case{1000, kMs}, Case{4000, 4 * kMs}, Case{UINT32_MAX, 5 * kMs}}) {
    LockRig rig(LockRig::with_locks(), {.lease_us = 3000, .max_lease_us = 5000});
    rig.inject(rig.acquire(kPsn, {.lease_us = one.asked_us}));
    (void)rig.sent();
    rig.advance(one.given_ns - 2 * kTickNs);
    (void)rig.sent();
    EXPECT_FALSE(rig.word().is_free()) << one.asked_us;
    rig.advance(4 * kTickNs);
    (void)rig.sent();
    EXPECT_TRUE(rig.word().is_free()) << one.asked_us;
  }
}

/// LK-29: what comes of the scope after the end of its lease is not executed.
TEST(LockLease, TheRestOfTheScopeIsNotExecuted) {
  LockRig rig;
  rig.inject_all({rig.acquire(kPsn, {.psns = 6, .lease_us = 1000}),
                  write_packet(Opcode::rc_rdma_write_first, kPsn + 1, rig.reth_of(kRecord, 300),
                               pattern(256))});
  EXPECT_THAT(rig.sent(), Contains(IsGranted(kPsn)));
  rig.advance(kMs + 2 * kTickNs);
  (void)rig.sent();
  EXPECT_TRUE(rig.word().is_free());
  const Payload after = rig.data(0, 8192);
  rig.inject_all({packet(Opcode::rc_rdma_write_last, kPsn + 2, pattern(44)),
                  rig.read(kPsn + 3, kRecord, 300), rig.add(kPsn + 5, kRecord, 1),
                  rig.release(kPsn + 6)});
  EXPECT_THAT(rig.sent(), ElementsAre(IsFlushed(kPsn + 3), IsFlushed(kPsn + 5),
                                      IsFailed(kPsn + 6, LockCause::expired)));
  EXPECT_EQ(rig.data(0, 8192), after);
  rig.inject(rig.acquire(kPsn + 7));
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn + 7)));
}

/// LK-29, LK-14: a foreign word is put back as it was under the mask, and nothing else of it.
TEST(LockLease, OfAForeignWord) {
  for (const bool add : {false, true}) {
    LockRig rig;
    rig.poke(0, 0xaa00);
    Packet request = rig.acquire(
        kPsn, {.flags = static_cast<std::uint8_t>(Lketh::kFifo | (add ? Lketh::kAdd : 0)),
               .lease_us = 1000,
               .subtype = Lketh::kAcquireForeign});
    request.payload = payload_of<wire::LockOperation>(
        {{.compare = 0, .compare_mask = 0xff, .swap_add = 3, .mask = add ? 0x80u : 0xffu}});
    rig.inject(request);
    EXPECT_EQ(rig.cell(0), 0xaa03u);
    rig.poke(0, 0xbb03);
    rig.advance(kMs + 2 * kTickNs);
    EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn)));
    EXPECT_EQ(rig.cell(0), 0xbb00u);
  }
}

enum class End { error, reset, destroy };

/// LK-29: what the connection held is free, and who waits has it.
TEST(LockAbort, TheEndOfAConnectionFreesItsLock) {
  for (const End end : {End::error, End::reset, End::destroy}) {
    LockRig rig;
    auto& other = rig.connect(kOther);
    rig.to(other, rig.acquire(kOther));
    rig.inject(rig.acquire(kPsn));
    EXPECT_THAT(rig.sent(), testing::UnorderedElementsAre(IsGranted(kOther), IsSignOfLife(kPsn)));
    roce::QpAttributes a;
    a.qp_state = end == End::error ? QpState::err : QpState::reset;
    if (end == End::destroy) {
      rig.engine().destroy_qp(&other);
    } else {
      ASSERT_TRUE(other.modify(a, roce::kQpState));
    }
    EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn)));
    EXPECT_EQ(rig.statistics().aborts.load(), 1u);
    EXPECT_EQ(rig.word().generation, 1u);
  }
}

/// One that waits is forgotten, with its packets; those behind it are next.
TEST(LockAbort, TheEndOfAConnectionThatWaits) {
  for (const End end : {End::error, End::reset, End::destroy}) {
    LockRig rig;
    auto& other = rig.connect(kOther);
    auto& third = rig.connect(kThird);
    rig.inject(rig.acquire(kPsn, {.subtype = Lketh::kAcquireShared}));
    rig.to(other, rig.acquire(kOther, {.psns = 2}));
    rig.to(other, rig.write(kOther + 1, kRecord, {1}));
    rig.to(other, rig.release(kOther + 2));
    rig.to(third, rig.acquire(kThird, {.subtype = Lketh::kAcquireShared}));
    (void)rig.sent();
    roce::QpAttributes a;
    a.qp_state = end == End::error ? QpState::err : QpState::reset;
    if (end == End::destroy) {
      rig.engine().destroy_qp(&other);
    } else {
      ASSERT_TRUE(other.modify(a, roce::kQpState));
    }
    next_retry(rig);
    EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kThird)));
    EXPECT_EQ(rig.data(kRecord, 1), Payload{0});
    EXPECT_EQ(rig.statistics().aborts.load(), 0u);
    EXPECT_EQ(rig.word().readers, 2);
  }
}

/// A request of a scope that is refused ends the connection, and the lock is free.
TEST(LockAbort, ARefusedRequestInAScopeFreesTheLock) {
  LockRig rig;
  rig.inject(rig.acquire(kPsn, {.psns = 2}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn)));
  rig.inject(read_request(kPsn + 1, {.va = rig.lock_va(), .rkey = 0x123, .length = 8}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::remote_access_error)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_TRUE(rig.word().is_free());
}

/// The same while it is executed behind an acquire that has waited.
TEST(LockAbort, ARefusedRequestBehindAnAcquireThatWaited) {
  LockRig rig;
  rig.hold_elsewhere();
  rig.inject_all({rig.acquire(kPsn, {.psns = 3}),
                  read_request(kPsn + 1, {.va = rig.lock_va(), .rkey = 0x123, .length = 8}),
                  rig.write(kPsn + 2, kRecord, {1}), rig.release(kPsn + 3)});
  (void)rig.sent();
  rig.poke(0, 0);
  next_retry(rig);
  EXPECT_THAT(rig.sent(), Contains(IsNak(kPsn + 1, NakCode::remote_access_error)));
  EXPECT_TRUE(rig.word().is_free());
  EXPECT_EQ(rig.data(kRecord, 1), Payload{0});
}

/// What the target does with one acquire and a WRITE and a release behind it, of which nothing is
/// to happen.
std::vector<Packet> refusal(LockRig& rig, Packet acquire) {
  const Payload before = rig.data(0, 8192);
  acquire.headers.lketh.scope_psns = 2;
  rig.inject_all({acquire, rig.write(kPsn + 1, kRecord, {1}), rig.release(kPsn + 2)});
  EXPECT_EQ(rig.data(0, 8192), before);
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_EQ(rig.statistics().grants.load(), 0u);
  EXPECT_TRUE(rig.engine().detach_locks(rig.region));
  return rig.sent();
}

/// LK-31.
TEST(LockRefused, AsAtomicsAre) {
  const auto changed = [](auto change, ConnectionOptions options = {}) {
    LockRig rig(LockRig::with_locks(options));
    Packet request = rig.acquire(kPsn);
    change(rig, request);
    return refusal(rig, request);
  };
  const auto is_access_error = ElementsAre(IsNak(kPsn, NakCode::remote_access_error));
  const auto is_invalid = ElementsAre(IsNak(kPsn, NakCode::invalid_request));
  EXPECT_THAT(changed([](LockRig&, Packet& p) { p.headers.lketh.rkey ^= 0x10; }), is_access_error);
  EXPECT_THAT(changed([](LockRig& rig, Packet& p) { p.headers.lketh.va = rig.lock_va(32768); }),
              is_access_error);
  for (unsigned i = 1; i < 8; ++i) {
    EXPECT_THAT(changed([i](LockRig&, Packet& p) { p.headers.lketh.va += i; }), is_invalid);
  }
  EXPECT_THAT(changed([](LockRig&, Packet&) {}, {.access = roce::kAccessRemoteWrite}), is_invalid);
  // Memory of the same peer, but no locks are served there.
  EXPECT_THAT(changed([](LockRig& rig, Packet& p) {
                p.headers.lketh.va = rig.va(64);
                p.headers.lketh.rkey = rig.rkey();
              }),
              is_access_error);
  // A region without the right.
  EXPECT_THAT(changed([](LockRig& rig, Packet& p) {
                const auto region = rig.engine().register_memory(rig.pd(), rig.cells.data(), 64,
                                                                 roce::kAccessRemoteRead);
                p.headers.lketh.rkey = static_cast<std::uint32_t>(region.value().key);
              }),
              is_access_error);
}

/// LK-31, LK-32: one bad word of several, behind good ones.
TEST(LockRefused, ABadWordOfSeveral) {
  const auto with = [](std::vector<wire::LockWord> words) {
    LockRig rig;
    for (wire::LockWord& one : words) {
      one.rkey ^= rig.lock_rkey();
      one.va += rig.lock_va();
    }
    Packet request = rig.acquire(kPsn, {.subtype = Lketh::kAcquireSeveral});
    request.payload = payload_of(words);
    return refusal(rig, request);
  };
  EXPECT_THAT(with({{0, false, 8}, {0x10, false, 16}}),
              ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
  EXPECT_THAT(with({{0, false, 8}, {0, true, 20}}),
              ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  EXPECT_THAT(with({{0, false, 8}, {0, true, 0}}),
              ElementsAre(IsNak(kPsn, NakCode::invalid_request)))
      << "a word twice";
}

TEST(LockRefused, MalformedPayloads) {
  const auto with = [](std::uint8_t subtype, std::size_t length) {
    LockRig rig;
    Packet request = rig.acquire(kPsn, {.subtype = subtype});
    request.payload = Payload(length);
    return refusal(rig, request);
  };
  const auto is_invalid = ElementsAre(IsNak(kPsn, NakCode::invalid_request));
  for (const std::size_t length : {1u, 16u, 32u}) {
    EXPECT_THAT(with(Lketh::kAcquireExclusive, length), is_invalid);
    EXPECT_THAT(with(Lketh::kAcquireShared, length), is_invalid);
    EXPECT_THAT(with(Lketh::kRelease, length), is_invalid);
    EXPECT_THAT(with(Lketh::kCancel, length), is_invalid);
  }
  for (const std::size_t length : {0u, 8u, 15u, 17u, 128u}) {
    EXPECT_THAT(with(Lketh::kAcquireSeveral, length), is_invalid) << length;
  }
  for (const std::size_t length : {0u, 16u, 31u, 33u, 64u}) {
    EXPECT_THAT(with(Lketh::kAcquireForeign, length), is_invalid);
    EXPECT_THAT(with(Lketh::kReleaseForeign, length), is_invalid);
  }
  for (const std::uint8_t subtype : std::initializer_list<std::uint8_t>{0, 4, 9, 255}) {
    EXPECT_THAT(with(subtype, 0), is_invalid) << unsigned{subtype};
  }
}

/// WIRE-3, WIRE-5: who has not agreed to it gets no answer.
TEST(LockRefused, WithoutTheCapabilityItIsDroppedInSilence) {
  LockRig rig(ConnectionOptions{});
  rig.inject(rig.acquire(kPsn));
  rig.inject(lock_answer(0x1000, wire::LockStatus::granted));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.drops(DropReason::bad_service), 2u);
  EXPECT_EQ(rig.cell(0), 0u);
}

/// What has no place in a scope ends the connection, and its lock.
TEST(LockRefused, WhatDoesNotBelongToAScope) {
  const auto in_scope = [](auto make, std::uint16_t psns = 3) {
    LockRig rig;
    rig.post_recv(1, 64);
    rig.inject_all({rig.acquire(kPsn, {.psns = psns}), make(rig)});
    EXPECT_THAT(rig.sent(),
                ElementsAre(IsGranted(kPsn), IsNak(kPsn + 1, NakCode::invalid_request)));
    EXPECT_TRUE(rig.word().is_free());
    EXPECT_EQ(rig.data(kRecord, 8), Payload(8));
  };
  in_scope([](LockRig&) { return packet(Opcode::rc_send_only, kPsn + 1, pattern(8)); });
  in_scope([](LockRig& rig) {
    return write_packet(Opcode::rc_rdma_write_only_with_immediate, kPsn + 1,
                        rig.reth_of(kRecord, 8), pattern(8));
  });
  in_scope([](LockRig& rig) { return rig.acquire(kPsn + 1, {.id = 8, .word = 8}); });
  in_scope([](LockRig& rig) { return rig.cancel(kPsn + 1); });
  in_scope([](LockRig& rig) { return rig.release(kPsn + 1); });  // too early
  in_scope([](LockRig& rig) { return rig.release(kPsn + 1, 8); }, 1);
  in_scope([](LockRig& rig) { return rig.write(kPsn + 1, kRecord, pattern(8)); }, 1);
  in_scope([](LockRig& rig) { return rig.add(kPsn + 1, kRecord, 1); }, 1);
  // A READ that would reach to the release and beyond.
  in_scope([](LockRig& rig) { return rig.read(kPsn + 1, kRecord, 600); });
}

/// A lock that is held by itself allows everything but another one.
TEST(LockRefused, AnotherLockBesidesOneThatIsHeld) {
  LockRig rig;
  rig.post_recv(1, 64);
  rig.inject_all({rig.acquire(kPsn), packet(Opcode::rc_send_only, kPsn + 1, pattern(8)),
                  rig.acquire(kPsn + 2, {.id = 8, .word = 8})});
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn), IsNak(kPsn + 2, NakCode::invalid_request)));
  EXPECT_TRUE(rig.word().is_free());
  EXPECT_EQ(rig.cell(8), 0u);
}

/// One that is told to come again is looked up anew: the memory may be gone by then.
TEST(LockRefused, AnAcquireThatComesAgainWhenItsMemoryIsGone) {
  LockRig rig;
  const auto region =
      rig.engine().register_memory(rig.pd(), rig.cells.data(), 64, roce::kAccessAll).value();
  rig.hold_elsewhere();
  Packet request = rig.acquire(kPsn, {.flags = Lketh::kResend});
  request.headers.lketh.rkey = static_cast<std::uint32_t>(region.key);
  rig.inject(request);
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, 12)));
  ASSERT_TRUE(rig.engine().deregister_memory(region.key));
  rig.poke(0, 0);
  rig.inject(request);
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
  EXPECT_EQ(rig.cell(0), 0u);
}

/// The PSN of one that was told to come again can come as another request.
TEST(LockRefused, AnotherAcquireInPlaceOfTheOneThatWasToComeAgain) {
  LockRig rig;
  rig.hold_elsewhere();
  rig.inject(rig.acquire(kPsn, {.flags = Lketh::kResend}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kPsn, 12)));
  rig.inject(rig.acquire(kPsn, {.id = 9, .word = 64}));
  EXPECT_THAT(rig.sent(), ElementsAre(IsGranted(kPsn)));
  EXPECT_FALSE(rig.word(64).is_free());
}

/// More than can be kept until all of it is there.
TEST(LockRoom, AScopeThatIsTooLongToStore) {
  LockRig rig;
  rig.inject_all({rig.acquire(kPsn, {.psns = 256, .flags = kStoreForward}),
                  rig.write(kPsn + 1, kRecord, {1})});
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kPsn, LockCause::too_big), IsAck(kPsn + 1, 2u)));
  EXPECT_EQ(rig.data(kRecord, 1), Payload{0});
  EXPECT_EQ(rig.cell(0), 0u);
}

/// LK-20: its release is flushed as that of any acquire that has failed (docs/wire.md).
TEST(LockRoom, TheReleaseOfAScopeThatIsTooLongToStore) {
  LockRig rig;
  rig.inject(rig.acquire(kPsn, {.psns = 256, .flags = kStoreForward}));
  for (std::uint32_t i = 1; i < 256; ++i) {
    rig.inject(rig.write(kPsn + i, kRecord, {1}));
  }
  (void)rig.sent();
  rig.inject(rig.release(kPsn + 256));
  EXPECT_THAT(rig.sent(), ElementsAre(IsFlushed(kPsn + 256)));
}

/// LK-23: more READ than can be kept fails the scope, before it is read.
TEST(LockRoom, ReadsThatAreTooLong) {
  for (const bool pool : {false, true}) {
    LockRig rig(LockRig::with_locks({.locks = {.snapshot_bytes = pool ? 8192u : 65536u,
                                               .max_scope_reads = pool ? 65536u : 8192u}}));
    rig.inject_all({rig.acquire(kPsn, {.psns = 35}), rig.read(kPsn + 1, 0, 8192),
                    rig.read(kPsn + 33, kRecord, 1), rig.write(kPsn + 34, kRecord, {1}),
                    rig.release(kPsn + 35)});
    const auto sent = rig.sent();
    ASSERT_EQ(sent.size(), 1u + 32 + 2);
    EXPECT_THAT(sent[33], IsFlushed(kPsn + 33));
    EXPECT_THAT(sent[34], IsFailed(kPsn + 35, LockCause::too_big));
    EXPECT_EQ(rig.data(kRecord, 1), Payload{0});
    EXPECT_TRUE(rig.word().is_free());
    // The next scope has all of the room again.
    rig.inject_all({rig.acquire(kPsn + 36, {.psns = 33}), rig.read(kPsn + 37, 0, 8192),
                    rig.release(kPsn + 69)});
    EXPECT_THAT(rig.sent(), Contains(IsReleased(kPsn + 69)));
  }
}

/// LK-25: as many as may wait do; others are told to come again, and then have their turn.
TEST(LockRoom, MoreConnectionsThanMayWait) {
  LockRig rig(LockRig::with_locks({.locks = {.max_parked_scopes = 1}}));
  auto& other = rig.connect(kOther);
  rig.hold_elsewhere();
  const Ask ask{.tries = 3};
  rig.inject(rig.acquire(kPsn));
  rig.to(other, rig.acquire(kOther, ask));
  EXPECT_THAT(rig.sent(), testing::UnorderedElementsAre(IsSignOfLife(kPsn), IsRnrNak(kOther, 12)));
  rig.to(other, rig.acquire(kOther, ask));
  EXPECT_THAT(rig.sent(), ElementsAre(IsRnrNak(kOther, 12)));
  rig.to(other, rig.acquire(kOther, ask));
  EXPECT_THAT(rig.sent(), ElementsAre(IsFailed(kOther, LockCause::tries))) << "each time is a look";
  rig.inject(rig.cancel(kPsn + 1));
  EXPECT_THAT(rig.sent(), Contains(IsFailed(kPsn, LockCause::canceled)));
  rig.to(other, rig.acquire(kOther + 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(kOther + 1)));
}

/// LK-25: what finds no room is dropped, and asked for when it has its turn.
TEST(LockRoom, MorePacketsThanMayWait) {
  ConnectionOptions options = LockRig::with_locks();
  options.max_held_packets = 4;  // of which the first connection gets two
  LockRig rig(options);
  rig.hold_elsewhere();
  std::vector<Packet> packets{rig.acquire(kPsn, {.psns = 4})};
  for (std::uint32_t i = 1; i < 4; ++i) {
    packets.push_back(rig.write(kPsn + i, kRecord + i, {static_cast<std::uint8_t>(i)}));
  }
  packets.push_back(rig.release(kPsn + 4));
  rig.inject_all(packets);
  EXPECT_GE(rig.drops(DropReason::lock_no_room), 1u);
  EXPECT_THAT(rig.sent(), Contains(IsSignOfLife(kPsn)));
  rig.poke(0, 0);
  next_retry(rig);
  EXPECT_THAT(rig.sent(),
              ElementsAre(IsGranted(kPsn), IsNak(kPsn + 3, NakCode::psn_sequence_error)));
  EXPECT_EQ(rig.data(kRecord, 4), (Payload{0, 1, 2, 0}));
  rig.inject_all({packets[3], packets[4]});
  EXPECT_THAT(rig.sent(), ElementsAre(IsReleased(kPsn + 4)));
  EXPECT_EQ(rig.data(kRecord, 4), (Payload{0, 1, 2, 3}));
}

/// LK-15: an acquire among what was kept is told to come again, whatever was dropped behind it.
TEST(LockRoom, TheRnrNakOfAnAcquireThatWasKeptIsNotReplaced) {
  ConnectionOptions options = LockRig::with_locks();
  options.max_held_packets = 4;
  LockRig rig(options);
  rig.hold_elsewhere(0);
  rig.hold_elsewhere(8);
  rig.inject_all({rig.acquire(kPsn, {.psns = 1}), rig.release(kPsn + 1),
                  rig.acquire(kPsn + 2, {.id = 8, .flags = Lketh::kResend, .word = 8}),
                  rig.write(kPsn + 3, kRecord, {1})});
  EXPECT_EQ(rig.drops(DropReason::lock_no_room), 1u);
  (void)rig.sent();
  rig.poke(0, 0);
  next_retry(rig);
  EXPECT_THAT(rig.sent(),
              ElementsAre(IsGranted(kPsn), IsReleased(kPsn + 1), IsRnrNak(kPsn + 2, 12)));
}

/// A gap behind an acquire that waits is named at once, and filled while it waits.
TEST(LockGaps, WhatIsMissingBehindAnAcquireThatWaits) {
  for (const std::uint8_t flags : {Lketh::kFifo, kStoreForward}) {
    LockRig rig;
    rig.hold_elsewhere();
    const Packet last = rig.release(kPsn + 4);
    rig.inject_all(
        {rig.acquire(kPsn, {.psns = 4, .flags = flags}), rig.read(kPsn + 1, kRecord, 300), last});
    EXPECT_THAT(rig.sent(), Contains(IsNak(kPsn + 3, NakCode::psn_sequence_error)))
        << "the READ has two PSNs";
    rig.inject_all({rig.write(kPsn + 3, kRecord, {9}), last});
    (void)rig.sent();
    EXPECT_EQ(rig.data(kRecord, 1), Payload{0});
    rig.poke(0, 0);
    next_retry(rig);
    EXPECT_THAT(
        rig.sent(),
        ElementsAre(IsGranted(kPsn), IsPacket(Opcode::rc_rdma_read_response_first, kPsn + 1),
                    IsPacket(Opcode::rc_rdma_read_response_last, kPsn + 2), IsReleased(kPsn + 4)));
    EXPECT_EQ(rig.data(kRecord, 1), Payload{9});
  }
}

/// The release itself is lost: the lock is held until it has come again.
TEST(LockGaps, ALostRelease) {
  LockRig rig;
  rig.inject_all({rig.acquire(kPsn, {.psns = 2}), rig.write(kPsn + 1, kRecord, {1}),
                  rig.write(kPsn + 3, kRecord + 1, {1})});
  EXPECT_THAT(rig.sent(),
              ElementsAre(IsGranted(kPsn), IsNak(kPsn + 2, NakCode::psn_sequence_error)));
  EXPECT_FALSE(rig.word().is_free());
  rig.inject(rig.release(kPsn + 2));
  EXPECT_THAT(rig.sent(), ElementsAre(IsReleased(kPsn + 2)));
}

TEST(LockGaps, AllOfItAcrossTheEndOfThePsns) {
  for (const std::uint8_t flags : {Lketh::kFifo, kStoreForward}) {
    for (const bool held : {false, true}) {
      for (std::uint32_t before = 0; before <= 5; ++before) {
        ConnectionOptions options = LockRig::with_locks();
        const std::uint32_t first = (0x1000000 - before) & wire::kMask24;
        options.rq_psn = first;
        LockRig rig(options);
        const auto psn = [first](std::uint32_t i) { return (first + i) & wire::kMask24; };
        if (held) rig.hold_elsewhere();
        const std::vector<Packet> packets{rig.acquire(psn(0), {.psns = 4, .flags = flags}),
                                          rig.read(psn(1), kRecord, 300),
                                          rig.write(psn(3), kRecord, {9}), rig.release(psn(4))};
        rig.inject_all(packets);
        if (held) {
          rig.inject_all(packets);
          EXPECT_THAT(rig.sent(), ElementsAre(IsSignOfLife(psn(0))));
          rig.poke(0, 0);
          next_retry(rig);
        }
        const auto is_all =
            ElementsAre(IsGranted(psn(0)), IsPacket(Opcode::rc_rdma_read_response_first, psn(1)),
                        IsPacket(Opcode::rc_rdma_read_response_last, psn(2)), IsReleased(psn(4)));
        ASSERT_THAT(rig.sent(), is_all) << before;
        EXPECT_EQ(rig.data(kRecord, 1), Payload{9});
        rig.inject_all(packets);
        EXPECT_THAT(rig.sent(), testing::Contains(IsReleased(psn(4))));
        EXPECT_TRUE(rig.word().is_free());
      }
    }
  }
}

/// What is behind a READ that claims too many PSNs.
TEST(LockGaps, AReadOfTooManyPsnsBehindAnAcquireThatWaits) {
  LockRig rig;
  rig.hold_elsewhere();
  rig.inject_all({rig.acquire(kPsn, {.psns = 4, .flags = kStoreForward}),
                  rig.read(kPsn + 1, kRecord, UINT32_MAX), rig.write(kPsn + 2, kRecord, {1}),
                  rig.release(kPsn + 4)});
  (void)rig.sent();
  rig.poke(0, 0);
  next_retry(rig);
  EXPECT_THAT(rig.sent(), Contains(IsNak(kPsn + 1, NakCode::invalid_request)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_TRUE(rig.word().is_free());
  EXPECT_EQ(rig.data(kRecord, 1), Payload{0});
}

/// Not while somebody waits or holds, by the engine's own call.
TEST(LockRegion, IsNotDetachedInUse) {
  LockRig rig;
  rig.inject(rig.acquire(kPsn));
  EXPECT_FALSE(rig.engine().detach_locks(rig.region));
  rig.inject(rig.release(kPsn + 1));
  EXPECT_TRUE(rig.engine().detach_locks(rig.region));
  rig.inject(rig.acquire(kPsn + 2));
  EXPECT_THAT(rig.sent(), Contains(IsNak(kPsn + 2, NakCode::remote_access_error)));
}

}  // namespace
}  // namespace rockhopper::test::lock_responder_fault_test
