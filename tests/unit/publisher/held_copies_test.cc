// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Copies that wait for their turn (PB-17), against a map of what there must be.
#include "apps/services/publisher/held_copies.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::publisher::held_copies_test {
namespace {

using Held = HeldCopies::Held;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::uint64_t sequence) {
  const Bytes payload(sequence % 17, static_cast<std::byte>(sequence));
  Bytes bytes(Record::size_of(payload.size()));
  emit_record(bytes.data(), {.position = sequence * 64, .sequence = sequence, .epoch = 1}, payload);
  return bytes;
}

Held hold(HeldCopies& copies, std::uint64_t sequence, std::uint64_t round = 0) {
  const Bytes bytes = bytes_of(sequence);
  const auto parsed = Record::parse_copy(bytes, 1, 100);
  EXPECT_EQ(parsed.status, RecordStatus::valid);
  return copies.hold(parsed.record, bytes, round);
}

TEST(HeldCopiesTest, AreInOrderOnceAndWithinTheirRoom) {
  sim::Rng rng(test::seed());
  HeldCopies copies;
  EXPECT_EQ(hold(copies, 1), Held::full);
  constexpr std::size_t kRoom = 16;
  copies.resize(kRoom, 64);
  std::map<std::uint64_t, std::uint64_t> model;  // round by sequence
  for (std::uint64_t turn = 0; turn < 20'000; ++turn) {
    if (rng.chance(60)) {
      const std::uint64_t sequence = rng.between(0, 60);
      const Held expected = model.count(sequence) != 0 ? Held::already
                            : model.size() == kRoom    ? Held::full
                                                       : Held::yes;
      ASSERT_EQ(hold(copies, sequence, turn), expected);
      model.try_emplace(sequence, turn);
      if (expected == Held::full) model.erase(sequence);
    } else if (rng.chance(5)) {
      const std::uint64_t tail = rng.between(0, 60);
      const std::uint64_t round = turn - rng.between(0, std::min<std::uint64_t>(turn, 20));
      const auto dropped = std::erase_if(model, [&](const auto& copy) {
        return copy.second < round && (copy.first + 1) * 64 > tail * 64;
      });
      ASSERT_EQ(copies.drop_beyond(tail * 64, round), dropped);
    } else if (!model.empty()) {
      const Bytes expected = bytes_of(model.begin()->first);
      const auto payload = Record::parse_copy(expected, 1, 100).record.payload;
      ASSERT_TRUE(std::equal(payload.begin(), payload.end(), copies.front().payload.begin(),
                             copies.front().payload.end()));
      copies.pop_front();
      model.erase(model.begin());
    }
    ASSERT_EQ(copies.size(), model.size());
    if (model.empty()) continue;
    ASSERT_EQ(copies.front().sequence, model.begin()->first);
    ASSERT_EQ(copies.back().sequence, model.rbegin()->first);
    std::uint64_t hole = model.rbegin()->first;
    while (hole > 0 && model.count(hole - 1) != 0) {
      --hole;
    }
    ASSERT_EQ(copies.last_hole(), hole * 64);
  }
}

TEST(HeldCopiesTest, LongerOnesHaveNoRoom) {
  HeldCopies copies;
  copies.resize(2, 63);
  EXPECT_EQ(hold(copies, 1), Held::full);
  EXPECT_TRUE(copies.empty());
}

}  // namespace
}  // namespace rockhopper::publisher::held_copies_test
