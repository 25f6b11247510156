// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/target.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "apps/common/pattern.h"

namespace rockhopper::apps::messages {

Target::Target(Node& node) : node_(node), layout_(node.layout()) {
  node_.context().set_handler(kMessage,
                              [this](const ami::Message& message) { on_message(message); });
  node_.context().set_handler(kPing, [this](const ami::Message& message) { on_ping(message); });
}

void Target::begin(const RunSpec& spec) {
  spec_ = spec;
  fault_.clear();
  owes_pong_ = false;
  handled_.store(0, std::memory_order_relaxed);
  for (std::uint64_t slot = 0; slot < layout_.slots; ++slot) {
    std::memset(word(slot), 0, sizeof(std::uint64_t));
    if (node_.agreement().check) {
      fill_pattern(node_.memory().subspan(layout_.target(slot), spec_.size), spec_.seed,
                   spec_.operation == Operation::get ? slot : UINT64_MAX);
    }
  }
}

bool Target::turn() {
  const bool worked = node_.context().advance() > 0;
  return (owes_pong_ && pong()) || worked;
}

void Target::on_message(const ami::Message& message) {
  const std::uint64_t number = handled_.load(std::memory_order_relaxed);
  if (node_.agreement().check) {
    check(message);
    // What the sender looks for in its callback.
    const std::uint64_t mark = number + 1;
    std::memcpy(word(number), &mark, sizeof mark);
  }
  handled_.store(number + 1, std::memory_order_release);
}

void Target::on_ping(const ami::Message& message) {
  on_message(message);
  // What it has brought goes back; unchecked, of long messages only as many bytes.
  if (message.payload.size() <= node_.immediate_bytes() || node_.agreement().check) {
    std::copy(message.payload.begin(), message.payload.end(),
              node_.memory().begin() + static_cast<std::ptrdiff_t>(layout_.local(0)));
  }
  owes_pong_ = true;
  (void)pong();
}

bool Target::pong() {
  owes_pong_ =
      node_.context().send(kClientId, kPong, {}, node_.local(layout_.local(0), spec_.size)) ==
      ami::Injected::again;
  return !owes_pong_;
}

void Target::check(const ami::Message& message) {
  const std::uint64_t expected = handled_.load(std::memory_order_relaxed);
  std::uint64_t number = 0;
  if (message.header.size() == sizeof number) {
    std::memcpy(&number, message.header.data(), sizeof number);
  }
  if (message.header.size() != sizeof number || number != expected) {
    if (fault_.empty()) fault_ = fmt::format("message {} came where {} was due", number, expected);
  } else if (message.payload.size() != spec_.size ||
             find_pattern_mismatch(message.payload, spec_.seed, number)) {
    if (fault_.empty()) fault_ = fmt::format("the content of message {} is wrong", number);
  }
}

Expected<void> Target::finish(std::uint64_t instructions) {
  if (!fault_.empty()) return fail(ErrorCode::io, "{}", fault_);
  const bool puts = spec_.operation == Operation::put || spec_.operation == Operation::put_notify;
  if (spec_.operation == Operation::fetch_add) {
    std::uint64_t sum = 0;
    std::memcpy(&sum, word(0), sizeof sum);
    if (sum != instructions) {
      return fail(ErrorCode::io, "{} additions have left {}", instructions, sum);
    }
  }
  if (!puts || !node_.agreement().check) return {};
  for (std::uint64_t age = 0; age < std::min(layout_.slots, instructions); ++age) {
    const std::uint64_t number = instructions - 1 - age;
    const auto data = node_.memory().subspan(layout_.target(number), spec_.size);
    if (const auto at = find_pattern_mismatch(data, spec_.seed, number)) {
      return fail(ErrorCode::io, "{} {}: byte {} is wrong", name_of(spec_.operation), number, *at);
    }
    std::uint64_t notified = 0;
    std::memcpy(&notified, word(number), sizeof notified);
    if (spec_.operation == Operation::put_notify && notified != number + 1) {
      return fail(ErrorCode::io, "put_notify {}: its value is {}, not {}", number, notified,
                  number + 1);
    }
  }
  return {};
}

}  // namespace rockhopper::apps::messages
