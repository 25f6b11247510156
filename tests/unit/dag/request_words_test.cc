// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which request words of a client have a request under way, and whose.
#include "apps/services/dag/request_words.h"

#include <cstddef>
#include <cstdint>
#include <set>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

constexpr std::uint32_t kOperation = 7;

class RequestWordsTest : public ::testing::Test {
 protected:
  std::uint64_t take(std::uint32_t operation = kOperation) {
    const auto id = words_.take(operation);
    EXPECT_TRUE(id);
    return id.value_or(0);
  }
  void take_all() {
    for (std::size_t i = 0; i < kRequestWords; ++i) {
      (void)take();
    }
  }

  RequestWords words_;
};

TEST_F(RequestWordsTest, EachRequestHasAWord) {
  std::set<std::size_t> words;
  for (std::size_t i = 0; i < kRequestWords; ++i) {
    words.insert(word_of(take()));
  }
  EXPECT_EQ(words.size(), kRequestWords);
  EXPECT_FALSE(words_.take(kOperation)) << "as many as there are words";
}

// The server decides by it which request is the later one.
TEST_F(RequestWordsTest, IdsOfAWordGrow) {
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t id = take();
    EXPECT_EQ(word_of(id), 0u);
    EXPECT_GT(id, last);
    last = id;
    EXPECT_TRUE(words_.on_answer(id, false).is_expected);
  }
}

TEST_F(RequestWordsTest, AnAnswerIsForTheOperationThatWaits) {
  const std::uint64_t first = take(3);
  const std::uint64_t second = take(4);
  EXPECT_EQ(words_.on_answer(second, false).operation, 4u);
  EXPECT_EQ(words_.on_answer(first, false).operation, 3u);
  EXPECT_FALSE(words_.on_answer(first, false).is_expected) << "it comes once";
  EXPECT_FALSE(words_.on_answer(12345, false).is_expected);
}

// What the word has is what a CAS must expect that cancels the next request.
TEST_F(RequestWordsTest, AnAnswerTellsWhatTheWordHas) {
  const std::uint64_t first = take();
  EXPECT_EQ(words_.known(first), 0u);
  (void)words_.on_answer(first, false);
  const std::uint64_t second = take();
  ASSERT_EQ(word_of(first), word_of(second));
  EXPECT_EQ(words_.known(second), RequestWord{.id = first}.bits());
  (void)words_.on_answer(second, true);
  EXPECT_EQ(words_.known(take()), (RequestWord{.id = second, .canceled = true}.bits()));
}

TEST_F(RequestWordsTest, AForsakenRequestKeepsItsWordUntilTheAnswer) {
  const std::uint64_t id = take();
  words_.forsake(id);
  EXPECT_NE(word_of(take()), word_of(id));
  const auto answer = words_.on_answer(id, false);
  EXPECT_TRUE(answer.is_expected);
  EXPECT_FALSE(answer.operation);
  EXPECT_EQ(word_of(take()), word_of(id));
}

TEST_F(RequestWordsTest, ARequestThatWasNotSentFreesItsWord) {
  const std::uint64_t id = take();
  words_.withdraw(id);
  EXPECT_FALSE(words_.on_answer(id, false).is_expected);
  EXPECT_EQ(word_of(take()), word_of(id));
}

// The server says so when it takes what was canceled; if that has arrived at all.
TEST_F(RequestWordsTest, ACanceledRequestFreesItsWordWithItsReceipt) {
  for (const bool sent : {false, true}) {
    words_.reset();
    const std::uint64_t id = take();
    words_.on_canceled(id, sent);
    EXPECT_EQ(words_.known(id), (RequestWord{.id = id, .canceled = true}.bits()));
    const auto receipt = words_.on_answer(id, true);
    EXPECT_EQ(receipt.is_expected, sent);
    EXPECT_FALSE(receipt.operation);
    EXPECT_EQ(word_of(take()), word_of(id));
  }
}

TEST_F(RequestWordsTest, AnotherConnectionHasAllWords) {
  take_all();
  words_.reset();
  take_all();
}

}  // namespace
}  // namespace rockhopper::dag
