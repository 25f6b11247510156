// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "apps/services/publisher/reader.h"
#include "tests/sim/rng.h"

namespace rockhopper::test {

/// What message `sequence` of a store holds in a run with that seed: of random length and content.
[[nodiscard]] inline std::vector<std::byte> content(std::uint64_t seed, std::uint64_t sequence,
                                                    std::uint32_t length_max) {
  // Those of neighbouring seeds and numbers have nothing in common.
  sim::Rng rng(sim::Rng(seed).next() + sequence * 0xd1342543de82ef95);
  std::vector<std::byte> bytes(rng.chance(10) ? rng.between(0, length_max)
                                              : rng.between(0, length_max / 8));
  rng.fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

/// Holds what a subscriber is told against what was published: content() of the store's seed and
/// epoch together. Delivered messages and lost ones must follow each other without a hole.
class Judge final : public publisher::Listener {
 public:
  Judge(std::uint64_t seed, std::uint32_t longest) : seed_(seed), longest_(longest) {}

  void on_message(const publisher::Message& message) override {
    const auto expected = content(seed_ + message.epoch, message.sequence, longest_);
    corrupted += !std::equal(expected.begin(), expected.end(), message.payload.begin(),
                             message.payload.end());
    tile(message.sequence, message.sequence);
    epoch_mixed += message.epoch != epoch && epoch != 0;
    epoch = message.epoch;
    ++messages;
  }
  void on_lost(std::uint64_t from, std::uint64_t to) override {
    tile(from, to);
    lost.emplace_back(from, to);
  }
  void on_restart(std::uint64_t /*old_epoch*/, std::uint64_t new_epoch) override {
    epoch = new_epoch;
    next.reset();
    ++restarts;
  }

  [[nodiscard]] bool good() const {
    return corrupted == 0 && out_of_order == 0 && epoch_mixed == 0;
  }

  std::optional<std::uint64_t> first;
  std::optional<std::uint64_t> next;
  std::uint64_t messages = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t out_of_order = 0;
  std::uint64_t epoch = 0;
  std::uint64_t epoch_mixed = 0;
  unsigned restarts = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> lost;

 private:
  void tile(std::uint64_t from, std::uint64_t to) {
    if (!first) first = from;
    out_of_order += (next && from != *next) || to < from;
    next = to + 1;
  }

  std::uint64_t seed_;
  std::uint32_t longest_;
};

}  // namespace rockhopper::test
