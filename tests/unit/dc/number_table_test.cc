// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The numbers of initiators and targets: without an engine.
#include "dc/number_table.h"

#include <cstdint>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tests/support/taken_numbers.h"

namespace rockhopper::test::number_table_test {
namespace {

using dc::Dct;
using dc::NumberTable;

constexpr std::uint16_t kShards = 4;
constexpr std::uint16_t kShard = 2;

class NumberTableTest : public ::testing::Test {
 protected:
  Dct& add(std::uint32_t pd = 1) {
    auto number = table_.choose();
    EXPECT_TRUE(number.has_value());
    return *table_.add(std::make_unique<Dct>(*number, dc::DctInit{.pd = {pd}}, 0));
  }

  roce::SeededRandom random_{seed()};
  NumberTable table_{random_, kShards, kShard};
};

TEST_F(NumberTableTest, NumbersAreOfTheWindowAndTheShard) {
  for (int i = 0; i < 1000; ++i) {
    const wire::Qpn number = add().number();
    EXPECT_TRUE(is_extension_qpn(number)) << number.value;
    EXPECT_EQ(number.value % kShards, kShard);
  }
}

TEST_F(NumberTableTest, NoNumberIsGivenTwice) {
  std::set<std::uint32_t> places;
  for (int i = 0; i < 5000; ++i) {
    EXPECT_TRUE(places.insert(add().number().value & 0xffff).second) << "high bits are chance";
  }
  EXPECT_EQ(table_.size(), 5000u);
}

TEST_F(NumberTableTest, ChosenNumberIsNobodysYet) {
  const auto number = table_.choose();
  ASSERT_TRUE(number.has_value());
  EXPECT_EQ(table_.find_dct(*number), nullptr);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(NumberTableTest, FoundByItsWholeNumber) {
  const Dct& dct = add();
  EXPECT_EQ(table_.find_dct(dct.number()), &dct);
  EXPECT_EQ(table_.find_dci(dct.number()), nullptr) << "it is a target";
  EXPECT_EQ(table_.find_dct(wire::Qpn{dct.number().value ^ 1u << 16}), nullptr) << "an old one";
  EXPECT_EQ(table_.find_dct(wire::Qpn{wire::kExtensionQpnLast.value | 0xffff}), nullptr);
}

TEST_F(NumberTableTest, RemovedAndFree) {
  const wire::Qpn number = add().number();
  table_.remove(*table_.find_dct(number));
  EXPECT_EQ(table_.find_dct(number), nullptr);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(NumberTableTest, AllOfAShardCanBeInUse) {
  constexpr std::size_t kMost = (1u << 16) / kShards;
  for (std::size_t i = 0; i < kMost; ++i) {
    add();
  }
  const auto more = table_.choose();
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, ErrorCode::exhausted);
  table_.for_each([](dc::Dci&) { FAIL(); }, [this](Dct& dct) { table_.remove(dct); });
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_TRUE(table_.choose().has_value());
}

TEST_F(NumberTableTest, ProtectionDomainIsUsedWhileATargetIsThere) {
  EXPECT_FALSE(table_.uses({7}));
  const wire::Qpn number = add(7).number();
  add(8);
  EXPECT_TRUE(table_.uses({7}));
  table_.remove(*table_.find_dct(number));
  EXPECT_FALSE(table_.uses({7}));
}

#ifndef NDEBUG
using NumberTableDeathTest = NumberTableTest;

TEST_F(NumberTableDeathTest, OneAtANumber) {
  const Dct& dct = add();
  EXPECT_DEATH(table_.add(std::make_unique<Dct>(dct.number(), dc::DctInit{}, 0)), "taken");
}
#endif

TEST(NumberTable, NumbersOfOtherProcessesAreLeftOut) {
  roce::SeededRandom random(seed());
  TakenNumbers numbers;
  for (std::uint32_t low = 0; low < 1500; ++low) {
    numbers.others.insert(low);  // more than the table has places at first
  }
  NumberTable table(random, 1, 0, &numbers);
  const auto number = table.choose();
  ASSERT_TRUE(number.has_value());
  EXPECT_GE(number->value & 0xffff, 1500u);
  EXPECT_EQ(numbers.own.size(), 1u);
  table.remove(*table.add(std::make_unique<Dct>(*number, dc::DctInit{.pd = {1}}, 0)));
  EXPECT_TRUE(numbers.own.empty());
  const auto unused = table.choose();
  ASSERT_TRUE(unused.has_value());
  table.give_back(*unused);
  EXPECT_TRUE(numbers.own.empty());
}

TEST(NumberTable, OtherProcessesHaveAll) {
  roce::SeededRandom random(seed());
  TakenNumbers numbers;
  for (std::uint32_t low = 0; low < 1u << 16; ++low) {
    numbers.others.insert(low);
  }
  NumberTable table(random, 1, 0, &numbers);
  EXPECT_EQ(table.choose().error().code, ErrorCode::exhausted);
}

}  // namespace
}  // namespace rockhopper::test::number_table_test
