// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/publisher/log_follower.h"
#include "apps/services/publisher/reader.h"
#include "apps/services/publisher/store.h"
#include "tests/publisher/judge.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::test {

/// A store, the copies that were sent of its messages, and a reader that gets those that a test
/// hands on. READs are executed when a round begins, and answered when it ends.
class CopiesRig {
 public:
  using Bytes = std::vector<std::byte>;
  static constexpr std::uint64_t kHeartbeatNs = 1'000'000;
  static constexpr std::uint64_t kPollNs = 10'000;

  struct Options {
    publisher::Start start{};
    std::uint32_t longest = 400;
    std::uint64_t ring = 16384;
    std::uint32_t copy_max = 4096;
    std::uint32_t held = 64;
  };
  CopiesRig() : CopiesRig(Options{}) {}
  explicit CopiesRig(const Options& options)
      : longest(options.longest),
        copy_max(options.copy_max),
        memory(publisher::store_bytes(options.ring)),
        judge(seed, longest),
        reader({.start = options.start, .poll_max_ns = kPollNs}, judge) {
    start_store(7);
    const publisher::StoreInfo info{.id = 1,
                                    .name = "a",
                                    .epoch = 7,
                                    .ring_bytes = options.ring,
                                    .message_max = longest,
                                    .heartbeat_ns = kHeartbeatNs};
    buffer.resize(publisher::Reader::buffer_bytes(info, {}));
    reader.set_buffer(buffer);
    const auto opened = reader.open(info, now_ns);
    EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().message);
    reader.expect_copies(options.held, copy_max);
  }

  void start_store(std::uint64_t epoch) {
    store = *publisher::Store::create(memory.bytes(),
                                      {.id = 1, .epoch = epoch, .message_max = longest});
    follower.emplace(*store);
    copies.clear();
  }
  /// Copies of these are in `copies` then, at their numbers; empty if they are too long.
  void publish(std::uint64_t count = 1) {
    for (; count > 0; --count) {
      const std::uint64_t sequence = store->next_sequence();
      EXPECT_EQ(
          store->publish(content(seed + store->epoch(), sequence, longest), 0, sequence * 1000),
          publisher::Published::yes);
      Bytes copy(copy_max);
      const auto step = follower->next(copy);
      const bool copied = step == publisher::LogFollower::Step::record;
      EXPECT_TRUE(copied || step == publisher::LogFollower::Step::too_long);
      copy.resize(copied ? follower->size() : 0);
      copies.push_back(std::move(copy));
    }
  }
  void hand_on(std::uint64_t sequence) {
    if (!copies.at(sequence).empty()) reader.on_copy(copies[sequence], now_ns);
  }
  void hand_on(std::uint64_t first, std::uint64_t last) {
    for (; first <= last; ++first) {
      hand_on(first);
    }
  }

  /// False: no round is to begin now.
  bool begin() {
    store->heartbeat(now_ns);
    reader.tick(now_ns);
    const auto requests = reader.next_round(now_ns);
    if (requests.empty()) return false;
    EXPECT_LE(requests.size(), publisher::Reader::kReadsMax);
    EXPECT_EQ(requests.back().offset, 0u) << "the control block is not the last one";
    ranges.clear();
    for (const publisher::ReadRequest& request : requests) {
      const auto bytes = memory.bytes();
      if (request.offset + request.to.size() > bytes.size()) {
        ADD_FAILURE() << "a READ outside the store";
        return false;
      }
      std::memcpy(request.to.data(), bytes.data() + request.offset, request.to.size());
      ranges.emplace_back(request.offset, request.to.size());
    }
    ++rounds;
    return true;
  }
  void end() { reader.on_round(now_ns); }
  bool round() {
    if (!begin()) return false;
    end();
    return true;
  }
  /// Rounds as they are due, until `limit_ns` from now.
  void run_for(std::uint64_t duration_ns) {
    const std::uint64_t limit_ns = now_ns + duration_ns;
    while (now_ns <= limit_ns) {
      if (!round()) now_ns = std::max(now_ns + 1, reader.next_deadline_ns());
    }
    now_ns = limit_ns;
  }
  [[nodiscard]] bool all_told() const { return judge.next.value_or(0) == store->next_sequence(); }
  void expect_good() const {
    EXPECT_EQ(judge.corrupted, 0u);
    EXPECT_EQ(judge.out_of_order, 0u);
    EXPECT_EQ(judge.epoch_mixed, 0u);
    EXPECT_TRUE(memory.intact());
  }

  std::uint64_t seed = test::seed();
  std::uint32_t longest;
  std::uint32_t copy_max;
  GuardedMemory memory;
  std::unique_ptr<publisher::Store> store;
  std::optional<publisher::LogFollower> follower;
  std::vector<Bytes> copies;
  Judge judge;
  publisher::Reader reader;
  Bytes buffer;
  std::uint64_t now_ns = 1'000'000'000;
  std::uint64_t rounds = 0;
  std::vector<std::pair<std::uint64_t, std::size_t>> ranges;  ///< of the last round: offset, bytes
};

}  // namespace rockhopper::test
