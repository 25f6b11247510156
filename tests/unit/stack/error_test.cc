// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/error.h"

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace rockhopper {
namespace {

/// Counts how often it is asked, and fails with the number if told to.
struct Source {
  unsigned calls = 0;
  bool fails = false;

  template <typename T>
  Expected<T> give(T value) {
    ++calls;
    if (fails) return fail(ErrorCode::busy, "call {}", calls);
    return value;
  }

  Expected<void> act() {
    ++calls;
    if (fails) return fail(ErrorCode::timeout, "act {}", calls);
    return {};
  }
};

Expected<std::string> declare(Source& source) {
  ROCKHOPPER_TRY(auto number, source.give(41));
  ++number;
  ROCKHOPPER_TRY(const std::string text, source.give(std::string("a text")));
  return fmt::format("{}, {}", number, text);
}

Expected<void> assign(Source& source, std::string& to) {
  ROCKHOPPER_TRY(to, source.give(std::string("a new text")));
  return {};
}

Expected<std::unique_ptr<int>> hand_on(Source& source) {
  ROCKHOPPER_TRY(auto made, source.give(std::make_unique<int>(7)));
  return made;
}

Expected<int> refer(Source& source, int& referred) {
  ROCKHOPPER_TRY(int& same, source.give(std::ref(referred)));
  return ++same;
}

Expected<int> act(Source& source) {
  ROCKHOPPER_TRY(source.act());
  ROCKHOPPER_TRY(source.give(1));
  return 2;
}

Expected<int> act_if(Source& source, bool first) {
  if (first) {
    ROCKHOPPER_TRY(source.act());
  } else {
    ROCKHOPPER_TRY(source.give(1));
  }
  return 3;
}

template <typename From, typename To>
Expected<To> give_as(Source& source, From value) {
  return source.give(static_cast<To>(value));
}

/// Within its own argument, and with a comma outside of all other parentheses.
Expected<int> nest(Source& source) {
  ROCKHOPPER_TRY(const auto sum, [&]() -> Expected<int> {
    ROCKHOPPER_TRY(auto one, source.give(1));
    ROCKHOPPER_TRY(auto two, (give_as<long, int>(source, 2)));
    return one + two;
  }());
  return sum;
}

TEST(Try, DeclaresWithTheValue) {
  Source source;
  EXPECT_EQ(declare(source).value(), "42, a text");
  EXPECT_EQ(source.calls, 2u);
}

TEST(Try, AssignsTheValue) {
  Source source;
  std::string text = "an old text";
  ASSERT_TRUE(assign(source, text));
  EXPECT_EQ(text, "a new text");
  EXPECT_EQ(source.calls, 1u);
}

TEST(Try, ValuesThatCannotBeCopiedAreMoved) {
  Source source;
  const auto made = hand_on(source);
  ASSERT_TRUE(made);
  EXPECT_EQ(**made, 7);
}

TEST(Try, AReferenceStaysOne) {
  Source source;
  int number = 1;
  EXPECT_EQ(refer(source, number).value(), 2);
  EXPECT_EQ(number, 2);
}

TEST(Try, WithoutAVariableTheValueIsLeft) {
  Source source;
  EXPECT_EQ(act(source).value(), 2);
  EXPECT_EQ(source.calls, 2u);
}

TEST(Try, WithoutAVariableItIsOneStatement) {
  for (const bool first : {true, false}) {
    Source source;
    EXPECT_EQ(act_if(source, first).value(), 3);
    EXPECT_EQ(source.calls, 1u);
  }
}

TEST(Try, StandsInItsOwnArgument) {
  Source source;
  EXPECT_EQ(nest(source).value(), 3);
  EXPECT_EQ(source.calls, 2u);
}

TEST(Try, AnErrorIsReturnedAsItIsAndAtOnce) {
  Source source{.fails = true};
  std::string text = "an old text";
  int number = 1;
  EXPECT_EQ(declare(source).error().message, "call 1");
  EXPECT_EQ(assign(source, text).error().message, "call 2");
  EXPECT_EQ(hand_on(source).error().message, "call 3");
  EXPECT_EQ(refer(source, number).error().message, "call 4");
  EXPECT_EQ(act(source).error().message, "act 5");
  EXPECT_EQ(act_if(source, true).error().message, "act 6");
  EXPECT_EQ(nest(source).error().message, "call 7");
  EXPECT_EQ(source.calls, 7u);
  EXPECT_EQ(text, "an old text");
  EXPECT_EQ(number, 1);
}

TEST(Try, AnErrorKeepsItsCode) {
  Source source{.fails = true};
  EXPECT_EQ(declare(source).error().code, ErrorCode::busy);
  EXPECT_EQ(act(source).error().code, ErrorCode::timeout);
}

TEST(Try, ALocalResultIsCopied) {
  const auto outcome = [](const Expected<std::string>& result) -> Expected<std::string> {
    ROCKHOPPER_TRY(auto text, result);
    return text;
  };
  const Expected<std::string> good = "a text";
  const Expected<std::string> bad = fail(ErrorCode::io, "why");
  EXPECT_EQ(outcome(good).value(), "a text");
  EXPECT_EQ(good.value(), "a text");
  EXPECT_EQ(outcome(bad).error().message, "why");
  EXPECT_EQ(bad.error().message, "why");
}

}  // namespace
}  // namespace rockhopper
