// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What atomic requests ask for: without an engine. Masked ones have a test of their own.
#include "roce/atomic_operation.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::test {
namespace {

using roce::AtomicOperation;
using roce::MemoryKey;
using wire::Opcode;

class AtomicOperationTest : public ::testing::Test {
 protected:
  void ask(Opcode opcode, std::uint64_t swap_add, std::uint64_t compare = 0) {
    headers_.opcode = &wire::info(opcode);
    headers_.atomic_eth = {.va = 0x1000, .rkey = 7, .swap_add = swap_add, .compare = compare};
  }
  void ask_masked(std::uint8_t subtype) {
    headers_.opcode = &wire::info(Opcode::extended_atomic);
    headers_.xaeth = {.subtype = subtype,
                      .reserved24 = 0,
                      .rkey = 8,
                      .va = 0x2000,
                      .compare = 0x12,
                      .compare_mask = 0xff,
                      .swap_add = 0x3400,
                      .mask = 0xff00};
  }
  std::uint64_t perform() {
    return AtomicOperation(headers_).perform(reinterpret_cast<std::byte*>(&word_));
  }

  wire::Headers headers_;
  alignas(8) std::uint64_t word_ = 0x5612;
};

TEST_F(AtomicOperationTest, CompareAndSwapWhereItIsTheSame) {
  ask(Opcode::rc_compare_swap, 99, 0x5612);
  EXPECT_EQ(perform(), 0x5612u);
  EXPECT_EQ(word_, 99u);
}

TEST_F(AtomicOperationTest, CompareAndSwapWhereItDiffers) {
  ask(Opcode::rc_compare_swap, 99, 1);
  EXPECT_EQ(perform(), 0x5612u);
  EXPECT_EQ(word_, 0x5612u);
}

TEST_F(AtomicOperationTest, FetchAndAddWraps) {
  ask(Opcode::rc_fetch_add, UINT64_MAX);
  EXPECT_EQ(perform(), 0x5612u);
  EXPECT_EQ(word_, 0x5611u);
}

TEST_F(AtomicOperationTest, MaskedCompareAndSwap) {
  ask_masked(wire::Xaeth::kMaskedCompareSwap);
  EXPECT_EQ(perform(), 0x5612u);
  EXPECT_EQ(word_, 0x3412u);
}

TEST_F(AtomicOperationTest, MaskedFetchAndAdd) {
  ask_masked(wire::Xaeth::kMaskedFetchAdd);
  headers_.xaeth.mask = 1u << 15;  // fields of 16 and 48 bits
  EXPECT_EQ(perform(), 0x5612u);
  EXPECT_EQ(word_, 0x8a12u);
}

TEST_F(AtomicOperationTest, EachFormNamesItsWord) {
  ask(Opcode::rc_fetch_add, 1);
  EXPECT_EQ(AtomicOperation(headers_).va(), 0x1000u);
  EXPECT_EQ(AtomicOperation(headers_).key(), MemoryKey{7});
  ask_masked(wire::Xaeth::kMaskedFetchAdd);
  EXPECT_EQ(AtomicOperation(headers_).va(), 0x2000u);
  EXPECT_EQ(AtomicOperation(headers_).key(), MemoryKey{8});
}

TEST_F(AtomicOperationTest, OtherSubtypesAreUnknown) {
  ask_masked(wire::Xaeth::kMaskedFetchAdd);
  EXPECT_TRUE(AtomicOperation(headers_).is_known());
  headers_.xaeth.subtype = 0x7f;
  EXPECT_FALSE(AtomicOperation(headers_).is_known());
}

}  // namespace
}  // namespace rockhopper::test
