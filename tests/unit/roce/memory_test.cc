// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The memory table: keys, bounds, rights, protection domains.
#include "roce/memory.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test {
namespace {

using roce::MemoryKey;
using roce::MemoryStatus;
using roce::MemoryTable;
using roce::ProtectionDomain;

constexpr ProtectionDomain kPd{1};

class MemoryTables : public ::testing::Test {
 protected:
  roce::SeededRandom random_{1};
  MemoryTable table_{random_};
  std::array<std::byte, 4096> bytes_{};
};

TEST_F(MemoryTables, EveryRangeIsDecidedAsWithWideIntegers) {
  __extension__ using Wide = unsigned __int128;
  constexpr std::uint64_t kTop = UINT64_MAX;
  for (const std::uint64_t iova :
       {std::uint64_t{0}, std::uint64_t{4096}, kTop - 4096, std::uint64_t{1} << 63}) {
    const auto region =
        table_.register_region(kPd, bytes_.data(), bytes_.size(), roce::kAccessAll, iova);
    ASSERT_TRUE(region.has_value());
    const std::uint64_t end = iova + bytes_.size();
    const std::array addresses = {
        std::uint64_t{0}, std::uint64_t{1}, iova - 1, iova, iova + 1, end - 1, end,
        end + 1,          kTop - 1,         kTop};
    const std::array lengths = {std::uint64_t{0},
                                std::uint64_t{1},
                                std::uint64_t{4095},
                                std::uint64_t{4096},
                                std::uint64_t{4097},
                                kTop - 4096,
                                kTop - 1,
                                kTop,
                                std::uint64_t{1} << 63,
                                std::uint64_t{1} << 31};
    for (const std::uint64_t addr : addresses) {
      for (const std::uint64_t length : lengths) {
        const bool inside =
            Wide{addr} >= Wide{iova} && Wide{addr} + length <= Wide{iova} + bytes_.size();
        const auto found = table_.access(region->key, kPd, addr, length, 0);
        EXPECT_EQ(found.status == MemoryStatus::ok, inside)
            << "iova " << iova << " addr " << addr << " length " << length;
        if (inside) {
          EXPECT_EQ(found.data, bytes_.data() + (addr - iova));
        }
      }
    }
    ASSERT_TRUE(table_.deregister(region->key).has_value());
  }
}

TEST_F(MemoryTables, EachRightIsNeeded) {
  for (std::uint32_t access = 0; access <= roce::kAccessAll; ++access) {
    const auto region = table_.register_region(kPd, bytes_.data(), 64, access, 0);
    const bool consistent =
        (access & (roce::kAccessRemoteWrite | roce::kAccessRemoteAtomic)) == 0 ||
        (access & roce::kAccessLocalWrite) != 0;
    ASSERT_EQ(region.has_value(), consistent) << access;
    if (!region) continue;
    for (std::uint32_t needed = 0; needed <= roce::kAccessAll; ++needed) {
      const auto status = table_.access(region->key, kPd, 0, 8, needed).status;
      EXPECT_EQ(status, (needed & ~access) == 0 ? MemoryStatus::ok : MemoryStatus::no_access);
    }
    ASSERT_TRUE(table_.deregister(region->key).has_value());
  }
}

TEST_F(MemoryTables, BadRegistrationsAreRefused) {
  EXPECT_FALSE(table_.register_region(kPd, bytes_.data(), 64, 1u << 30, 0).has_value());
  EXPECT_FALSE(table_.register_region(kPd, bytes_.data(), 64, 0, UINT64_MAX - 10).has_value());
  EXPECT_FALSE(table_.register_region(kPd, bytes_.data(), UINT64_MAX, 0, 0).has_value());
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(MemoryTables, AnEmptyRegionHasNothingButItsAddress) {
  const auto region = table_.register_region(kPd, bytes_.data(), 0, 0, 4096);
  ASSERT_TRUE(region.has_value());
  EXPECT_EQ(table_.access(region->key, kPd, 4096, 0, 0).status, MemoryStatus::ok);
  EXPECT_EQ(table_.access(region->key, kPd, 4096, 1, 0).status, MemoryStatus::out_of_bounds);
  EXPECT_EQ(table_.access(region->key, kPd, 4095, 0, 0).status, MemoryStatus::out_of_bounds);
}

TEST_F(MemoryTables, ARegionMayBeAllOfMemory) {
  const auto region = table_.register_region(kPd, nullptr, UINT64_MAX, 0, 0);
  ASSERT_TRUE(region.has_value());
  const auto addr = reinterpret_cast<std::uint64_t>(bytes_.data());
  const auto found = table_.access(region->key, kPd, addr, bytes_.size(), 0);
  EXPECT_EQ(found.status, MemoryStatus::ok);
  EXPECT_EQ(found.data, bytes_.data());
  EXPECT_EQ(table_.access(region->key, kPd, UINT64_MAX, 1, 0).status, MemoryStatus::out_of_bounds);
}

/// Knows whether all memory is there, and can be written.
struct FixedPager final : roce::MemoryPager {
  bool page_in(const std::byte* data, std::uint64_t length, bool writes) override {
    last = data;
    last_length = length;
    return there && (writable || !writes);
  }
  const std::byte* last = nullptr;
  std::uint64_t last_length = 0;
  bool there = true;
  bool writable = true;
};

TEST_F(MemoryTables, MemoryThatIsPagedOnDemandIsLookedForAtEachAccess) {
  constexpr std::uint32_t kPaged = roce::kAccessOnDemand | roce::kAccessMwBind;
  EXPECT_FALSE(table_.register_region(kPd, bytes_.data(), 64, kPaged, 0).has_value());
  FixedPager pager;
  MemoryTable table(random_, &pager);
  const auto region = table.register_region(kPd, bytes_.data(), 64, roce::kAccessAll | kPaged, 0);
  ASSERT_TRUE(region.has_value());
  const auto window = table.allocate_window(kPd, roce::MemoryKind::window_type_1);
  ASSERT_TRUE(window.has_value());
  const roce::MemoryUser user{.pd = kPd, .qp = {}};
  pager.there = false;  // binding looks at no memory
  ASSERT_TRUE(table.bind(
      window->rkey, {.mr = region->key, .addr = 8, .length = 16, .access = roce::kAccessRemoteRead},
      user));
  const auto status = [&](MemoryKey key, std::uint64_t addr, std::uint32_t needed) {
    return table.remote_access(key, user, addr, 8, needed).status;
  };
  EXPECT_EQ(status(region->key, 0, 0), MemoryStatus::not_mapped);
  EXPECT_EQ(table.access(region->key, kPd, 0, 8, 0).status, MemoryStatus::not_mapped);
  EXPECT_EQ(status(window->rkey, 8, roce::kAccessRemoteRead), MemoryStatus::not_mapped);
  EXPECT_EQ(pager.last, bytes_.data() + 8);
  EXPECT_EQ(pager.last_length, 8u);
  EXPECT_EQ(status(region->key, 64, 0), MemoryStatus::out_of_bounds);
  pager.there = true;
  pager.writable = false;
  EXPECT_EQ(status(window->rkey, 8, roce::kAccessRemoteRead), MemoryStatus::ok);
  for (const std::uint32_t writes :
       {roce::kAccessLocalWrite, roce::kAccessRemoteWrite, roce::kAccessRemoteAtomic}) {
    EXPECT_EQ(status(region->key, 0, writes), MemoryStatus::not_mapped);
  }
}

TEST_F(MemoryTables, AChangedRegionKeepsItsKey) {
  constexpr ProtectionDomain kOther{2};
  const auto region =
      table_.register_region(kPd, bytes_.data(), 1000, roce::kAccessLocalWrite, 100);
  ASSERT_TRUE(region.has_value());
  const MemoryKey key = region->key;
  std::byte* second = bytes_.data() + 1000;
  ASSERT_TRUE(
      table_.change_region(key, kOther, second, 2000, roce::kAccessRemoteRead, 5).has_value());
  EXPECT_EQ(table_.access(key, kPd, 5, 1, 0).status, MemoryStatus::invalid_key);
  EXPECT_EQ(table_.access(key, kOther, 4, 1, 0).status, MemoryStatus::out_of_bounds);
  EXPECT_EQ(table_.access(key, kOther, 5, 1, roce::kAccessLocalWrite).status,
            MemoryStatus::no_access);
  const auto found = table_.access(key, kOther, 5, 2000, roce::kAccessRemoteRead);
  EXPECT_EQ(found.status, MemoryStatus::ok);
  EXPECT_EQ(found.data, second);
  EXPECT_FALSE(table_.change_region(key, kPd, second, 1, roce::kAccessRemoteWrite, 5).has_value());
  EXPECT_EQ(table_.access(key, kOther, 5, 2000, 0).status, MemoryStatus::ok);
  EXPECT_EQ(table_.size(), 1u);
  ASSERT_TRUE(table_.deregister(key).has_value());
  EXPECT_FALSE(table_.change_region(key, kPd, second, 1, 0, 5).has_value());
}

TEST_F(MemoryTables, KeysAreDistinctNeverZeroAndDieWithTheRegion) {
  std::set<std::uint32_t> keys;
  std::vector<MemoryKey> alive;
  for (int i = 0; i < 2000; ++i) {
    const auto region = table_.register_region(kPd, bytes_.data(), 64, 0, 0);
    ASSERT_TRUE(region.has_value());
    EXPECT_NE(static_cast<std::uint32_t>(region->key), 0u);
    EXPECT_TRUE(keys.insert(static_cast<std::uint32_t>(region->key)).second);
    alive.push_back(region->key);
  }
  EXPECT_EQ(table_.size(), 2000u);
  EXPECT_EQ(table_.regions_of(kPd), 2000u);
  EXPECT_EQ(table_.regions_of(ProtectionDomain{2}), 0u);
  for (const MemoryKey key : alive) {
    EXPECT_EQ(table_.access(key, kPd, 0, 64, 0).status, MemoryStatus::ok);
    ASSERT_TRUE(table_.deregister(key).has_value());
    EXPECT_EQ(table_.access(key, kPd, 0, 64, 0).status, MemoryStatus::invalid_key);
    EXPECT_FALSE(table_.deregister(key).has_value());
  }
  EXPECT_EQ(table_.size(), 0u);
}

/// A place that is used again gets another key, or a peer's old key would open new memory.
TEST_F(MemoryTables, OldKeysDoNotComeBackSoon) {
  std::set<std::uint32_t> keys;
  int repeated = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto region = table_.register_region(kPd, bytes_.data(), 64, 0, 0);
    ASSERT_TRUE(region.has_value());
    repeated += keys.insert(static_cast<std::uint32_t>(region->key)).second ? 0 : 1;
    ASSERT_TRUE(table_.deregister(region->key).has_value());
  }
  // 64 places times 65,535 keys each: by chance about 12 of 10,000.
  EXPECT_LT(repeated, 60);
}

TEST_F(MemoryTables, TheTableIsLimited) {
  std::vector<MemoryKey> keys;
  for (std::uint32_t i = 0; i < MemoryTable::kMaxRegions; ++i) {
    const auto region = table_.register_region(kPd, bytes_.data(), 64, 0, 0);
    ASSERT_TRUE(region.has_value()) << i;
    keys.push_back(region->key);
  }
  const auto beyond = table_.register_region(kPd, bytes_.data(), 64, 0, 0);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().code, ErrorCode::exhausted);
  ASSERT_TRUE(table_.deregister(keys[1234]).has_value());
  EXPECT_TRUE(table_.register_region(kPd, bytes_.data(), 64, 0, 0).has_value());
}

TEST(ProtectionDomains, LiveAsLongAsTheyAreUsed) {
  Rig rig;
  const auto pd = rig.engine().allocate_pd();
  std::array<std::byte, 64> bytes{};
  const auto region = rig.engine().register_memory(pd, bytes.data(), bytes.size(), 0);
  ASSERT_TRUE(region.has_value());
  EXPECT_EQ(rig.engine().deallocate_pd(pd).error().code, ErrorCode::busy);
  ASSERT_TRUE(rig.engine().deregister_memory(region->key).has_value());
  EXPECT_TRUE(rig.engine().deallocate_pd(pd).has_value());
  EXPECT_FALSE(rig.engine().deallocate_pd(pd).has_value());
  EXPECT_FALSE(rig.engine().register_memory(pd, bytes.data(), bytes.size(), 0).has_value());
  EXPECT_EQ(rig.engine().deallocate_pd(rig.pd()).error().code, ErrorCode::busy);
}

}  // namespace
}  // namespace rockhopper::test
