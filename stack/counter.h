// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>

namespace rockhopper::stack {

/// A statistic with one writer thread and any number of readers. Adding costs a plain load and
/// store; a reader sees a recent, never a torn value.
class Counter {
 public:
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Receives counters one by one.
using CounterVisitor = void (*)(void* context, const char* name, std::uint64_t value);
/// Receives what counters count, one by one: a line for people, of at most 127 characters and
/// without quotation marks and backslashes, as telemetry carries no others.
using CounterTextVisitor = void (*)(void* context, const char* name, const char* text);

// NOLINTBEGIN(bugprone-macro-parentheses): names of members stand in none.
#define ROCKHOPPER_COUNTER_MEMBER(name, meaning) ::rockhopper::stack::Counter name;
#define ROCKHOPPER_COUNTER_VISIT(name, meaning) visitor(context, #name, name.value());
#define ROCKHOPPER_COUNTER_DESCRIBE(name, meaning) visitor(context, #name, meaning);
/// What is in a struct of counters, which LIST(X) names by X(name, meaning): the counters, and for
/// all of them visit(visitor, context) and describe(visitor, context), which any thread may call.
#define ROCKHOPPER_COUNTERS(LIST)                                                        \
  LIST(ROCKHOPPER_COUNTER_MEMBER)                                                        \
  void visit(::rockhopper::stack::CounterVisitor visitor, void* context) const {         \
    LIST(ROCKHOPPER_COUNTER_VISIT)                                                       \
  }                                                                                      \
  static void describe(::rockhopper::stack::CounterTextVisitor visitor, void* context) { \
    LIST(ROCKHOPPER_COUNTER_DESCRIBE)                                                    \
  }
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace rockhopper::stack
