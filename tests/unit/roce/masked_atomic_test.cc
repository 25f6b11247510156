// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Masked atomics: our extension between two Rockhoppers (docs/wire.md).
#include "roce/masked_atomic.h"

#include <cstring>
#include <functional>
#include <random>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::masked_atomic_test {
namespace {

using roce::DropReason;
using roce::PostResult;
using roce::WcOpcode;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;
using wire::Xaeth;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kSendPsn = 0x001000;
constexpr std::size_t kAt = 64;
const ConnectionOptions kExtended{.extended_atomics = true};

/// Bit by bit, as the words of mlx5's extended atomics say it.
std::uint64_t slow_add(std::uint64_t value, std::uint64_t add, std::uint64_t boundary) {
  std::uint64_t sum = 0;
  unsigned carry = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const auto total = static_cast<unsigned>((value >> bit & 1) + (add >> bit & 1)) + carry;
    sum |= static_cast<std::uint64_t>(total & 1) << bit;
    carry = (boundary >> bit & 1) != 0 ? 0 : total >> 1;
  }
  return sum;
}

TEST(MaskedAtomics, AddIsThatOfIndependentFields) {
  std::mt19937_64 random(20261122);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t value = random();
    const std::uint64_t add = random();
    // Few and many fields.
    const std::uint64_t boundary =
        i % 3 == 0 ? random() & random() & random() & random() : random();
    ASSERT_EQ(roce::masked_add(value, add, boundary), slow_add(value, add, boundary));
  }
  EXPECT_EQ(roce::masked_add(UINT64_MAX, 1, 0), 0u);
  EXPECT_EQ(roce::masked_add(0x00000000ffffffff, 1, 0x80000000), 0u);
  EXPECT_EQ(roce::masked_add(0xff, 1, 0x80), 0u);
}

TEST(MaskedAtomics, CompareLooksAtItsMaskAndSwapChangesIts) {
  constexpr auto swap = [](std::uint64_t value, std::uint64_t compare_mask) {
    return roce::masked_compare_swap(value, 0x1200, compare_mask, 0xaaaa, 0x00f0);
  };
  static_assert(swap(0x1234, 0xff00) == 0x12a4);
  static_assert(swap(0x1334, 0xff00) == 0x1334);
  static_assert(swap(0x1334, 0) == 0x13a4);
}

Packet extended(std::uint32_t psn, const Xaeth& xaeth) {
  Packet result = packet(Opcode::extended_atomic, psn);
  result.headers.xaeth = xaeth;
  return result;
}

Xaeth fetch_add_of(const Rig& rig, std::uint64_t add, std::uint64_t boundary) {
  return {.subtype = Xaeth::kMaskedFetchAdd,
          .reserved24 = 0,
          .rkey = rig.rkey(),
          .va = rig.va(kAt),
          .compare = 0,
          .compare_mask = 0,
          .swap_add = add,
          .mask = boundary};
}

std::uint64_t word(const Rig& rig) {
  std::uint64_t value = 0;
  const Payload bytes = rig.memory_at(kAt, 8);
  std::memcpy(&value, bytes.data(), 8);
  return value;
}

TEST(MaskedAtomicResponder, ExecutesOnceAndAnswersDuplicates) {
  Rig rig(kExtended);
  const std::uint64_t before = word(rig);
  const Packet request = extended(kPsn, fetch_add_of(rig, 0x0101010101010101, 0x8080808080808080));
  rig.inject(request);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, before)));
  const std::uint64_t after = slow_add(before, 0x0101010101010101, 0x8080808080808080);
  EXPECT_EQ(word(rig), after);
  rig.inject(request);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, before)));
  EXPECT_EQ(word(rig), after);
  EXPECT_EQ(rig.counters().rx_atomic_requests.value(), 1u);
}

TEST(MaskedAtomicResponder, ComparesAndSwapsUnderMasks) {
  Rig rig(kExtended);
  const std::uint64_t before = word(rig);
  Xaeth xaeth = fetch_add_of(rig, 0x7777, 0xff00);
  xaeth.subtype = Xaeth::kMaskedCompareSwap;
  xaeth.compare = before & 0xffff0000;
  xaeth.compare_mask = 0xffff0000;
  rig.inject(extended(kPsn, xaeth));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn, before)));
  const std::uint64_t after = (before & ~std::uint64_t{0xff00}) | 0x7700;
  EXPECT_EQ(word(rig), after);
  xaeth.compare = ~xaeth.compare;
  xaeth.swap_add = 0;
  rig.inject(extended(kPsn + 1, xaeth));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAtomicAck(kPsn + 1, after)));
  EXPECT_EQ(word(rig), after);
}

/// WIRE-3, WIRE-5: nobody who has not agreed to it is answered.
TEST(MaskedAtomicResponder, WithoutTheCapabilityItIsDroppedInSilence) {
  Rig rig;
  rig.inject(extended(kPsn, fetch_add_of(rig, 1, 0)));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.drops(DropReason::bad_service), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

TEST(MaskedAtomicResponder, BadOnesAreRefused) {
  const auto refusal = [](std::function<void(Rig&, Xaeth&)> change,
                          std::uint32_t access = roce::kAccessAll) {
    Rig rig({.access = access, .extended_atomics = true});
    Xaeth xaeth = fetch_add_of(rig, 1, 0);
    change(rig, xaeth);
    rig.inject(extended(kPsn, xaeth));
    EXPECT_TRUE(rig.untouched_outside(0, 0));
    return rig.sent();
  };
  EXPECT_THAT(refusal([](Rig&, Xaeth& x) { x.subtype = 3; }),
              ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  EXPECT_THAT(refusal([](Rig&, Xaeth& x) { x.va += 4; }),
              ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  EXPECT_THAT(refusal([](Rig&, Xaeth&) {}, roce::kAccessRemoteWrite),
              ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  EXPECT_THAT(
      refusal([](Rig& rig, Xaeth& x) { x.rkey = static_cast<std::uint32_t>(rig.invalid_key()); }),
      ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
}

roce::SendWr masked(Rig& rig, WrOpcode opcode, std::span<const roce::Sge> list) {
  (void)rig;
  return {.wr_id = 6,
          .sg_list = list,
          .opcode = opcode,
          .remote_addr = 0x100000,
          .rkey = roce::MemoryKey{0x77},
          .compare_add = 0x1111,
          .swap = 0x2222,
          .compare_add_mask = 0x3333,
          .swap_mask = 0x4444};
}

TEST(MaskedAtomicRequester, SaysItsMasksAndTakesTheOldValue) {
  for (const bool swap : {true, false}) {
    for (const std::uint32_t max_inline : {0u, 13u, 64u}) {
      Rig rig({.max_inline = max_inline, .extended_atomics = true});
      const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.key()}}};
      const WrOpcode opcode =
          swap ? WrOpcode::masked_atomic_cmp_and_swp : WrOpcode::masked_atomic_fetch_and_add;
      ASSERT_EQ(rig.post(masked(rig, opcode, list)), PostResult::ok);
      const auto sent = rig.sent();
      ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::extended_atomic, kSendPsn)));
      const Xaeth& x = sent[0].headers.xaeth;
      EXPECT_EQ(x.subtype, swap ? Xaeth::kMaskedCompareSwap : Xaeth::kMaskedFetchAdd);
      EXPECT_EQ(x.va, 0x100000u);
      EXPECT_EQ(x.rkey, 0x77u);
      EXPECT_EQ(x.compare, swap ? 0x1111u : 0u);
      EXPECT_EQ(x.compare_mask, swap ? 0x3333u : 0u);
      EXPECT_EQ(x.swap_add, swap ? 0x2222u : 0x1111u);
      EXPECT_EQ(x.mask, swap ? 0x4444u : 0x3333u);
      rig.inject(atomic_response(kSendPsn, 0x0102030405060708));
      const auto done = rig.send_completions();
      ASSERT_THAT(done, ElementsAre(Completed(6u, WcStatus::success)));
      EXPECT_EQ(done[0].opcode, swap ? WcOpcode::masked_comp_swap : WcOpcode::masked_fetch_add);
      EXPECT_EQ(done[0].byte_len, 8u);
      std::uint64_t landed = 0;
      std::memcpy(&landed, rig.memory(), 8);
      EXPECT_EQ(landed, 0x0102030405060708u);
    }
  }
}

/// WIRE-4: none is sent to a peer that is not known to understand it.
TEST(MaskedAtomicRequester, WithoutTheCapabilityItIsNotPosted) {
  Rig rig;
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.key()}}};
  EXPECT_EQ(rig.post(masked(rig, WrOpcode::masked_atomic_fetch_and_add, list)),
            PostResult::invalid_request);
  EXPECT_EQ(rig.post(masked(rig, WrOpcode::masked_atomic_cmp_and_swp, list)),
            PostResult::invalid_request);
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(MaskedAtomicRequester, IsForReliableConnections) {
  Rig rig;
  EXPECT_FALSE(rig.engine().create_qp({.qp_type = roce::QpType::uc,
                                       .pd = rig.pd(),
                                       .send_cq = &rig.send_cq(),
                                       .recv_cq = &rig.recv_cq(),
                                       .extended_atomics = true}));
}

}  // namespace
}  // namespace rockhopper::test::masked_atomic_test
