// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Each header against bytes written by hand from the specification's figures: every field has a
// value of its own, so that a swapped or shifted field shows.
#include <array>
#include <random>

#include <gtest/gtest.h>

#include "roce/wire/packet.h"
#include "tests/support/seed.h"

namespace rockhopper::wire {
namespace {

static_assert(Bth::kSize == 12 && Reth::kSize == 16 && Aeth::kSize == 4 && AtomicEth::kSize == 28);
static_assert(AtomicAckEth::kSize == 8 && Deth::kSize == 8 && ImmDt::kSize == 4);
static_assert(Ieth::kSize == 4 && Xrceth::kSize == 4 && Rdeth::kSize == 4 && Feth::kSize == 4);
static_assert(CnpReserved::kSize == 16 && Icrc::kSize == 4 && Xaeth::kSize == 48 &&
              Saeth::kSize == 32 && Lketh::kSize == 40 && Lkaeth::kSize == 24);

template <typename Header>
using BytesOf = std::array<std::uint8_t, Header::kSize>;

template <typename Header>
constexpr BytesOf<Header> emitted(const Header& header) {
  BytesOf<Header> bytes{};
  header.emit(bytes);
  return bytes;
}

template <typename Header>
void expect_golden(const Header& header, const BytesOf<Header>& golden) {
  EXPECT_EQ(emitted(header), golden);
  EXPECT_EQ(Header::parse(golden), header);
}

/// Ours: docs/wire.md.
TEST(Dcsh, Golden) {
  expect_golden(
      Dcsh{.form = 1, .stream = 0x7e, .source = Qpn{0xd12345}, .value = 0x0102030405060708},
      {0xfe, 0xd1, 0x23, 0x45, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08});
  const Dcsh half{
      .form = 0, .stream = 0, .source = Qpn{0xd00001}, .value = Dcsh::from_nonce(0xa1b2c3d4)};
  expect_golden(half, {0x00, 0xd0, 0x00, 0x01, 0xa1, 0xb2, 0xc3, 0xd4, 0x00, 0x00, 0x00, 0x00});
  EXPECT_EQ(half.nonce(), 0xa1b2c3d4u);
}

/// Ours: a CONNECT as bytes, with the opcode of what it carries in byte 44.
TEST(Dcch, Golden) {
  std::array<std::uint8_t, 48> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 5 + 1);
  }
  Dcch header = Dcch::parse(bytes);
  EXPECT_EQ(header.operation(), bytes[44]);
  expect_golden(header, bytes);
  header.set_operation(0xca);
  bytes[44] = 0xca;
  expect_golden(header, bytes);
}

TEST(Xaeth, Golden) {
  expect_golden(Xaeth{.subtype = 0x02,
                      .reserved24 = 0x030405,
                      .rkey = 0x0a0b0c0d,
                      .va = 0x1112131415161718,
                      .compare = 0x2122232425262728,
                      .compare_mask = 0x3132333435363738,
                      .swap_add = 0x4142434445464748,
                      .mask = 0x5152535455565758},
                {0x02, 0x03, 0x04, 0x05, 0x0a, 0x0b, 0x0c, 0x0d, 0x11, 0x12, 0x13, 0x14,
                 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
                 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44,
                 0x45, 0x46, 0x47, 0x48, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58});
}

TEST(Lketh, Golden) {
  expect_golden(Lketh{.subtype = 0x06,
                      .flags = 0x0b,
                      .scope_id = 0x0203,
                      .rkey = 0x0a0b0c0d,
                      .va = 0x1112131415161718,
                      .max_tries = 0x2122,
                      .timeout = 0x0e,
                      .reserved8 = 0x24,
                      .wait_us = 0x31323334,
                      .owner = 0x41424344,
                      .lease_us = 0x51525354,
                      .scope_psns = 0x6162,
                      .reserved16 = 0x7172,
                      .reserved32 = 0x81828384},
                {0x06, 0x0b, 0x02, 0x03, 0x0a, 0x0b, 0x0c, 0x0d, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16,
                 0x17, 0x18, 0x21, 0x22, 0x0e, 0x24, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44,
                 0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0x71, 0x72, 0x81, 0x82, 0x83, 0x84});
}

/// The numbers that docs/wire.md gives to subtypes, flags and limits.
TEST(Lketh, Values) {
  EXPECT_EQ(Lketh::kAcquireExclusive, 1);
  EXPECT_EQ(Lketh::kAcquireShared, 2);
  EXPECT_EQ(Lketh::kRelease, 3);
  EXPECT_EQ(Lketh::kCancel, 5);
  EXPECT_EQ(Lketh::kAcquireSeveral, 6);
  EXPECT_EQ(Lketh::kAcquireForeign, 7);
  EXPECT_EQ(Lketh::kReleaseForeign, 8);
  EXPECT_EQ(Lketh::kStoreForward, 0x01);
  EXPECT_EQ(Lketh::kFifo, 0x02);
  EXPECT_EQ(Lketh::kResend, 0x04);
  EXPECT_EQ(Lketh::kAdd, 0x08);
  EXPECT_EQ(Lketh::kTriesUnlimited, 0xffff);
  EXPECT_EQ(Lketh::kWaitUnlimited, 0xffffffffu);
}

TEST(LockWord, Golden) {
  const BytesOf<LockWord> shared = {0x0a, 0x0b, 0x0c, 0x0d, 0x01, 0x00, 0x00, 0x00,
                                    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};
  expect_golden(LockWord{.rkey = 0x0a0b0c0d, .shared = true, .va = 0x1112131415161718}, shared);
  BytesOf<LockWord> exclusive = shared;
  exclusive[4] = 0;
  expect_golden(LockWord{.rkey = 0x0a0b0c0d, .shared = false, .va = 0x1112131415161718}, exclusive);
}

TEST(LockWord, ReservedBitsAreNotLookedAt) {
  const BytesOf<LockWord> bytes = {0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(LockWord::parse(bytes), (LockWord{.rkey = 0, .shared = false, .va = 0}));
}

TEST(LockOperation, Golden) {
  expect_golden(LockOperation{.compare = 0x2122232425262728,
                              .compare_mask = 0x3132333435363738,
                              .swap_add = 0x4142434445464748,
                              .mask = 0x5152535455565758},
                {0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33,
                 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46,
                 0x47, 0x48, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58});
}

TEST(Lkaeth, Golden) {
  expect_golden(Lkaeth{.status = LockStatus::failed,
                       .cause = LockCause::expired,
                       .scope_id = 0x0203,
                       .msn = 0x040506,
                       .reserved8 = 0x07,
                       .previous_word = 0x1112131415161718,
                       .value = 0x2122232425262728},
                {0x03, 0x06, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x11, 0x12, 0x13, 0x14,
                 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28});
}

/// The numbers that docs/wire.md gives to statuses and causes.
TEST(Lkaeth, Values) {
  constexpr LockStatus kStatuses[] = {LockStatus::granted, LockStatus::waiting,
                                      LockStatus::failed,  LockStatus::released,
                                      LockStatus::flushed, LockStatus::canceled};
  for (std::size_t i = 0; i < std::size(kStatuses); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kStatuses[i]), i + 1);
  }
  constexpr LockCause kCauses[] = {LockCause::none,     LockCause::tries,   LockCause::wait,
                                   LockCause::canceled, LockCause::too_big, LockCause::not_owner,
                                   LockCause::expired,  LockCause::too_late};
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kCauses[i]), i);
  }
}

TEST(Lkaeth, AnMsnWiderThanItsPlaceDoesNotSpill) {
  Lkaeth header = Lkaeth::parse(BytesOf<Lkaeth>{});
  header.msn = 0xff000000;
  EXPECT_EQ(emitted(header), BytesOf<Lkaeth>{});
}

TEST(Saeth, Golden) {
  Saeth saeth{};
  for (const std::uint32_t bit : {0u, 9u, 63u, 64u, 255u}) {
    saeth.set(bit);
  }
  BytesOf<Saeth> golden{};
  golden[0] = 0x01;
  golden[1] = 0x02;
  golden[7] = 0x80;
  golden[8] = 0x01;
  golden[31] = 0x80;
  expect_golden(saeth, golden);
  EXPECT_EQ(saeth.length(), 256u);
  EXPECT_TRUE(saeth.test(9));
  EXPECT_FALSE(saeth.test(10));
}

TEST(Saeth, ShiftIsBitByBit) {
  for (std::uint32_t count = 0; count <= 300; ++count) {
    Saeth saeth{}, expected{};
    for (std::uint32_t bit = 0; bit < Saeth::kBits; bit += 1 + bit % 7) {
      saeth.set(bit);
      if (bit >= count) expected.set(bit - count);
    }
    saeth.shift(count);
    EXPECT_EQ(saeth, expected) << count;
  }
}

TEST(Bth_9_2, Golden) {
  expect_golden(Bth{.opcode = 0x0a,
                    .solicited = true,
                    .mig_req = false,
                    .pad_count = 3,
                    .version = 0,
                    .pkey = 0x8765,
                    .fecn = false,
                    .becn = true,
                    .reserved6 = 0x15,
                    .destination = Qpn{0x123456},
                    .ack_request = true,
                    .reserved7 = 0x2a,
                    .psn = Psn{0xabcdef}},
                {0x0a, 0xb0, 0x87, 0x65, 0x55, 0x12, 0x34, 0x56, 0xaa, 0xab, 0xcd, 0xef});
  expect_golden(Bth{.opcode = 0x81,
                    .mig_req = true,
                    .version = 9,
                    .pkey = 0x7fff,
                    .fecn = true,
                    .destination = Qpn{1}},
                {0x81, 0x49, 0x7f, 0xff, 0x80, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00});
}

TEST(Bth_9_2, FieldsWiderThanTheirPlaceDoNotSpill) {
  const auto bytes = emitted(Bth{.opcode = 0,
                                 .pad_count = 0xfc,
                                 .version = 0xf0,
                                 .pkey = 0,
                                 .reserved6 = 0xc0,
                                 .destination = Qpn{0xff000000},
                                 .reserved7 = 0x80,
                                 .psn = Psn{0xff000000}});
  EXPECT_EQ(bytes, BytesOf<Bth>{});
}

TEST(Reth_9_3, Golden) {
  expect_golden(Reth{.va = 0x0102030405060708, .rkey = 0x11121314, .length = 0x80000000},
                {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x11, 0x12, 0x13, 0x14, 0x80, 0x00,
                 0x00, 0x00});
}

TEST(AtomicEth_9_3, Golden) {
  expect_golden(
      AtomicEth{.va = 0x0102030405060708,
                .rkey = 0x11121314,
                .swap_add = 0x2122232425262728,
                .compare = 0x3132333435363738},
      {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22,
       0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38});
}

TEST(Aeth_9_3, Golden) {
  expect_golden(Aeth{.syndrome = 0x62, .msn = 0xabcdef}, {0x62, 0xab, 0xcd, 0xef});
}

TEST(AtomicAckEth_9_3, Golden) {
  expect_golden(AtomicAckEth{.original = 0xf1f2f3f4f5f6f7f8},
                {0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8});
}

TEST(Deth_9_3, Golden) {
  expect_golden(Deth{.qkey = 0x80010000, .reserved8 = 0x5a, .source = Qpn{0x000001}},
                {0x80, 0x01, 0x00, 0x00, 0x5a, 0x00, 0x00, 0x01});
}

TEST(ImmDt_9_3, Golden) { expect_golden(ImmDt{.data = 0x11223344}, {0x11, 0x22, 0x33, 0x44}); }

TEST(Ieth_9_3, Golden) { expect_golden(Ieth{.rkey = 0xa1b2c3d4}, {0xa1, 0xb2, 0xc3, 0xd4}); }

TEST(Xrceth_A14, Golden) {
  expect_golden(Xrceth{.reserved8 = 0x5a, .xrc_srq = Qpn{0x123456}}, {0x5a, 0x12, 0x34, 0x56});
}

TEST(Rdeth_9_3, Golden) {
  expect_golden(Rdeth{.reserved8 = 0x5a, .ee_context = 0x123456}, {0x5a, 0x12, 0x34, 0x56});
}

TEST(Feth_A19, Golden) {
  expect_golden(Feth{.reserved26 = 0,
                     .selectivity_level = Feth::kMemoryRegion,
                     .placement_type = Feth::kPersistence},
                {0x00, 0x00, 0x00, 0x12});
  expect_golden(Feth{.reserved26 = 0x2aaaaaa, .selectivity_level = 2, .placement_type = 0xf},
                {0xaa, 0xaa, 0xaa, 0xaf});
}

TEST(CnpReserved_A17_9_3, Golden) {
  expect_golden(CnpReserved{.bytes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
                {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
}

template <typename Header>
class AnyHeader : public testing::Test {};

using AllHeaders =
    testing::Types<Bth, Reth, AtomicEth, Aeth, AtomicAckEth, Deth, ImmDt, Ieth, Xrceth, Rdeth, Feth,
                   CnpReserved, Xaeth, Saeth, Lketh, Lkaeth, LockOperation>;
TYPED_TEST_SUITE(AnyHeader, AllHeaders);

// No bit is lost, reserved ones included: whatever is parsed is emitted again.
TYPED_TEST(AnyHeader, KeepsEveryBit) {
  std::mt19937_64 random(test::seed());
  for (int i = 0; i < 10'000; ++i) {
    BytesOf<TypeParam> bytes;
    for (auto& byte : bytes) {
      byte = static_cast<std::uint8_t>(random());
    }
    ASSERT_EQ(emitted(TypeParam::parse(bytes)), bytes);
  }
}

}  // namespace
}  // namespace rockhopper::wire
