// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/content.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::apps::pingpong {
namespace {

constexpr std::size_t kPage = 4096;

Content make_content() { return Content(wire::Psn{11}, wire::Psn{22}, kPage); }

/// What ibv_rc_pingpong sends, with -c if `marked`.
std::vector<std::byte> stock_message(std::size_t size, bool marked) {
  std::vector<std::byte> message(size, std::byte{0x7b});
  for (std::size_t at = 0; marked && at < size; at += kPage) {
    message[at] = std::byte{0};
  }
  return message;
}

TEST(Content, TheStockServersCheckAcceptsOurs) {
  std::vector<std::byte> message(3 * kPage + 5);
  make_content().fill(message, 9);
  for (std::size_t at = 0; at < message.size(); at += kPage) {
    EXPECT_EQ(message[at], std::byte{0});
  }
}

TEST(Content, AcceptsARunOfEachKind) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, kPage, 2 * kPage + 1}) {
    for (const bool marked : {false, true}) {
      Content content = make_content();
      for (std::uint64_t message = 0; message < 3; ++message) {
        EXPECT_FALSE(content.check(stock_message(size, marked), message)) << size;
      }
    }
    Content content = make_content();
    std::vector<std::byte> own(size);
    for (std::uint64_t message = 0; message < 3; ++message) {
      content.fill(own, message);
      EXPECT_FALSE(content.check(own, message)) << size;
    }
  }
}

TEST(Content, FindsEveryFlippedByte) {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> message(1 + random() % (2 * kPage));
    Content content = make_content();
    content.expect_own();
    content.fill(message, 4);
    const std::size_t place = random() % message.size();
    message[place] ^= std::byte{0x10};
    EXPECT_TRUE(content.check(message, 4)) << "offset " << place << " of " << message.size();

    auto stock = stock_message(message.size(), true);
    stock[place] ^= std::byte{0x10};
    Content other = make_content();
    EXPECT_TRUE(other.check(stock, 0)) << "offset " << place << " of " << message.size();
  }
}

TEST(Content, AMessageOfAnotherNumberOrKindIsWrong) {
  Content content = make_content();
  std::vector<std::byte> message(100);
  content.fill(message, 0);
  EXPECT_FALSE(content.check(message, 0));
  EXPECT_TRUE(content.check(message, 1));

  Content mixed = make_content();
  EXPECT_FALSE(mixed.check(stock_message(100, true), 0));
  EXPECT_TRUE(mixed.check(stock_message(100, false), 1));
}

TEST(Content, AClientTakesNothingButItsOwn) {
  Content content = make_content();
  content.expect_own();
  EXPECT_TRUE(content.check(stock_message(100, true), 0));
}

}  // namespace
}  // namespace rockhopper::apps::pingpong
