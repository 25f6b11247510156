// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The file in which a process lists what it has of the device.
#include "apps/verbs/node/resources.h"

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/child_process.h"

namespace rockhopper::test {
namespace {

using verbs::Listing;
using verbs::ResourceKind;
using verbs::ResourceRecord;
using verbs::Resources;

/// CRC-32 of ISO 3309, a bit at a time.
std::uint32_t crc_of(const unsigned char* bytes, std::size_t size) {
  std::uint32_t crc = ~0u;
  for (std::size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
    }
  }
  return ~crc;
}

class ResourcesTest : public ::testing::Test {
 protected:
  /// What stands in the file, each record checked.
  [[nodiscard]] std::vector<ResourceRecord> read() const {
    std::ifstream file(path_, std::ios::binary);
    std::vector<ResourceRecord> records;
    ResourceRecord record;
    while (file.read(reinterpret_cast<char*>(&record), sizeof record)) {
      unsigned char bytes[sizeof record];
      std::memcpy(bytes, &record, sizeof record);
      EXPECT_EQ(record.checksum, crc_of(bytes + 4, sizeof record - 4));
      records.push_back(record);
    }
    return records;
  }
  [[nodiscard]] std::vector<std::uint32_t> listed() const {
    std::vector<std::uint32_t> ids;
    for (const ResourceRecord& record : read()) {
      if (record.kind != ResourceKind::none) ids.push_back(record.id);
    }
    return ids;
  }
  [[nodiscard]] static ResourceRecord record(std::uint32_t id) {
    return {.kind = ResourceKind::queue_pair, .id = id};
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/list";
};

TEST_F(ResourcesTest, PlacesAreUsedAgain) {
  Resources resources(path_);
  const std::uint32_t first = resources.add(record(1));
  const std::uint32_t second = resources.add(record(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(listed(), (std::vector<std::uint32_t>{1, 2}));
  resources.remove(first);
  EXPECT_EQ(listed(), (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(resources.add(record(3)), first);
  EXPECT_EQ(listed(), (std::vector<std::uint32_t>{3, 2}));
  EXPECT_EQ(read().size(), 2u);
}

TEST_F(ResourcesTest, ListingWritesWhatHasChanged) {
  Resources resources(path_);
  Listing listing;
  listing.show(resources, record(1));
  // What somebody else writes there stays until something changes.
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << "";
  listing.show(resources, record(1));
  EXPECT_TRUE(read().empty());
  ResourceRecord changed = record(1);
  changed.state = 3;
  listing.show(resources, changed);
  ASSERT_EQ(read().size(), 1u);
  EXPECT_EQ(read()[0].state, 3);
  listing.leave();
  EXPECT_TRUE(listed().empty());
  listing.leave();
}

TEST_F(ResourcesTest, TextsAreCut) {
  ResourceRecord long_one = record(1);
  long_one.set_wide(10, 0x1122334455667788);
  long_one.set_text(std::string(100, 'x'));
  EXPECT_EQ(long_one.values[9], 0x78787878u);
  EXPECT_EQ(long_one.values[10], 0x55667788u);
  EXPECT_EQ(long_one.values[11], 0x11223344u);
}

TEST_F(ResourcesTest, WhereNoFileCanBeMadeNothingIsListed) {
  Resources nowhere(directory_.path() + "/nothing/list");
  const std::uint32_t place = nowhere.add(record(1));
  EXPECT_EQ(place, Resources::kNone);
  nowhere.change(place, record(2));
  nowhere.remove(place);

  std::ofstream(path_) << "somebody's";
  Resources taken(path_);
  EXPECT_EQ(taken.add(record(1)), Resources::kNone) << "it is there already";
}

TEST_F(ResourcesTest, SoManyAreListedAtMost) {
  Resources resources(path_);
  for (std::uint32_t i = 0; i < Resources::kMost; ++i) {
    ASSERT_EQ(resources.add(record(i)), i);
  }
  EXPECT_EQ(resources.add(record(7)), Resources::kNone);
  resources.remove(5);
  EXPECT_EQ(resources.add(record(7)), 5u);
}

TEST_F(ResourcesTest, ChildThatLetsGoWritesNothing) {
  Resources resources(path_);
  const std::uint32_t place = resources.add(record(1));
  resources.let_go();
  resources.change(place, record(2));
  EXPECT_EQ(resources.add(record(3)), Resources::kNone);
  EXPECT_EQ(listed(), (std::vector<std::uint32_t>{1}));
}

}  // namespace
}  // namespace rockhopper::test
