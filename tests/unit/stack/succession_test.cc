// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/succession.h"

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "tests/support/child_process.h"

namespace rockhopper::stack {
namespace {

using ::testing::HasSubstr;

constexpr int kPatienceMs = 20'000;

class SuccessionTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return directory_.path() + "/role"; }
  [[nodiscard]] std::unique_ptr<Succession> open() const {
    auto opened = Succession::open(path());
    EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().message);
    return opened ? std::move(*opened) : nullptr;
  }
  static bool take(Succession& one) {
    const auto taken = one.take();
    EXPECT_TRUE(taken.has_value()) << (taken ? "" : taken.error().message);
    return taken && *taken;
  }
  /// Whether the role is seen to be vacant within that time.
  static bool is_vacant(const Succession& one, int timeout_ms = 0) {
    pollfd vacancy{one.vacancy(), 0, 0};
    return poll(&vacancy, 1, timeout_ms) > 0 && (vacancy.revents & POLLHUP) != 0;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(SuccessionTest, OneHasTheRole) {
  const auto first = open();
  const auto second = open();
  EXPECT_TRUE(take(*first));
  EXPECT_TRUE(take(*first)) << "it has it already";
  EXPECT_FALSE(take(*second));
  EXPECT_FALSE(is_vacant(*second));
}

TEST_F(SuccessionTest, NobodyHasHadItYet) {
  const auto waiting = open();
  EXPECT_FALSE(is_vacant(*waiting));
  EXPECT_TRUE(take(*waiting));
}

TEST_F(SuccessionTest, TheEndOfAKilledProcessIsSeen) {
  std::optional<test::ForkedProcess> child(std::in_place, [this] {
    if (!take(*open().release())) _exit(1);
  });
  const auto next = open();
  const auto last = open();
  EXPECT_FALSE(take(*next));
  EXPECT_FALSE(is_vacant(*next));
  child.reset();
  EXPECT_TRUE(is_vacant(*next, kPatienceMs));
  EXPECT_TRUE(is_vacant(*last, kPatienceMs));
  EXPECT_TRUE(take(*next));
  EXPECT_FALSE(take(*last));
  EXPECT_FALSE(is_vacant(*last)) << "it is taken";
}

TEST_F(SuccessionTest, OneThatWaitedForSomebodyElseSeesTheNextEnd) {
  auto first = open();
  auto second = open();
  const auto third = open();
  EXPECT_TRUE(take(*first));
  first.reset();
  EXPECT_TRUE(take(*second));
  second.reset();
  EXPECT_TRUE(is_vacant(*third));
  EXPECT_TRUE(take(*third));
}

TEST_F(SuccessionTest, AChildThatLetsGoKeepsNothing) {
  auto first = open();
  const auto second = open();
  ASSERT_TRUE(take(*first));
  const test::ForkedProcess child([&first] { first->let_go(); });
  first.reset();
  EXPECT_TRUE(is_vacant(*second, kPatienceMs));
  EXPECT_TRUE(take(*second));
}

TEST_F(SuccessionTest, ErrorsSayWhatIsWrong) {
  const auto nowhere = Succession::open(directory_.path() + "/none/role");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::io);
  std::ofstream(path()) << "a file";
  const auto file = Succession::open(path());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::invalid_state);
  EXPECT_THAT(file.error().message, HasSubstr("is no FIFO"));
}

}  // namespace
}  // namespace rockhopper::stack
