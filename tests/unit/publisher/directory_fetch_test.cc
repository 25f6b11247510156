// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A publisher's directory comes in parts.
#include "apps/services/publisher/directory_fetch.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::publisher::directory_fetch_test {
namespace {

Directory part(std::uint16_t first, std::uint16_t total, std::size_t stores) {
  return {.first = first, .total = total, .stores = std::vector<StoreInfo>(stores)};
}

class DirectoryFetchTest : public ::testing::Test {
 protected:
  /// The next request is sent. Returns from which store on it asks.
  std::uint16_t send() {
    const auto request = fetch_.next();
    EXPECT_TRUE(request);
    fetch_.on_sent();
    return request ? request->first : UINT16_MAX;
  }
  DirectoryFetch fetch_;
};

TEST_F(DirectoryFetchTest, AsksOnlyWhenItIsWanted) {
  EXPECT_FALSE(fetch_.next());
  EXPECT_FALSE(fetch_.take(part(0, 0, 0)));
  fetch_.want();
  EXPECT_EQ(send(), 0u);
  EXPECT_FALSE(fetch_.next()) << "one request at a time";
}

TEST_F(DirectoryFetchTest, AsksForTheRest) {
  fetch_.want();
  EXPECT_EQ(send(), 0u);
  EXPECT_TRUE(fetch_.take(part(0, 8, 6)));
  EXPECT_FALSE(fetch_.take_all());
  EXPECT_EQ(send(), 6u);
  EXPECT_TRUE(fetch_.take(part(6, 8, 2)));
  const auto all = fetch_.take_all();
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), 8u);
  EXPECT_FALSE(fetch_.next());
}

// Stores may have gone meanwhile.
TEST_F(DirectoryFetchTest, IsCompleteWhenNothingMoreComes) {
  fetch_.want();
  (void)send();
  ASSERT_TRUE(fetch_.take(part(0, 8, 6)));
  (void)send();
  ASSERT_TRUE(fetch_.take(part(6, 8, 0)));
  EXPECT_EQ(fetch_.take_all()->size(), 6u);
}

TEST_F(DirectoryFetchTest, TakesNoPartThatItHasNotAskedFor) {
  fetch_.want();
  (void)send();
  EXPECT_FALSE(fetch_.take(part(6, 8, 2)));
  EXPECT_TRUE(fetch_.take(part(0, 2, 2)));
  EXPECT_FALSE(fetch_.take(part(2, 2, 0)));
}

TEST_F(DirectoryFetchTest, BeginsAnewWithAnotherConnection) {
  fetch_.want();
  (void)send();
  ASSERT_TRUE(fetch_.take(part(0, 8, 6)));
  (void)send();
  fetch_.restart();
  EXPECT_EQ(send(), 0u);
}

}  // namespace
}  // namespace rockhopper::publisher::directory_fetch_test
