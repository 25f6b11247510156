// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// AM-23: callbacks that inject, to any depth, need no stack for it.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/ami/star.h"

namespace rockhopper::sim {
namespace {

using ami::CompletionMode;
using ami::Injected;
using ami::Status;

/// Each link of a chain injects the next one and one that ends there.
class Chain {
 public:
  Chain(bool dynamic_connections, CompletionMode mode, std::uint64_t depth)
      : depth_(depth), star_({.dynamic_connections = dynamic_connections}) {
    ami::LaneConfig config;
    config.fifo.completion = mode;
    config.fifo.slots = 4;
    lane_ = &star_.add_lane(0, config, 8);
    StarLane& peer = star_.add_lane(1);
    star_.connect(*lane_, peer);
    to_ = {.endpoint = peer.id,
           .addr = reinterpret_cast<std::uintptr_t>(&theirs_),
           .rkey = star_.expose(1, &theirs_, sizeof theirs_)};
    star_.open();
  }

  void run() {
    inject(1);
    star_.wake();
    EXPECT_TRUE(star_.run_until([this] { return called_ == 2 * depth_ - 1; }, depth_ * 1'000'000));
    EXPECT_EQ(deepest_, depth_);
    EXPECT_EQ(called_within_, 0u) << "advance() from within a callback calls nobody";
    EXPECT_EQ(lane_->context->pending(), 0u);
  }
  /// Bytes between the highest and the lowest frame of a callback.
  [[nodiscard]] std::uint64_t stack_bytes() const { return highest_ - lowest_; }

 private:
  static constexpr std::uint64_t kLeaf = 0;

  void inject(std::uint64_t level) {
    const std::uint64_t word = level;
    EXPECT_EQ(
        lane_->context->put(
            std::as_bytes(std::span(&word, 1)), to_,
            {.callback = {.function = [](void* context, std::uint64_t cookie,
                                         Status) { static_cast<Chain*>(context)->on_end(cookie); },
                          .context = this,
                          .cookie = level}}),
        Injected::yes);
  }
  void on_end(std::uint64_t level) {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    lowest_ = std::min(lowest_, here);
    highest_ = std::max(highest_, here);
    ++called_;
    deepest_ = std::max(deepest_, level);
    if (level != kLeaf && level < depth_) {
      inject(level + 1);
      inject(kLeaf);
    }
    called_within_ += lane_->context->advance();
  }

  std::uint64_t depth_;
  Star star_;
  StarLane* lane_ = nullptr;
  ami::Remote to_;
  std::uint64_t theirs_ = 0;
  std::uint64_t called_ = 0;
  std::uint64_t called_within_ = 0;
  std::uint64_t deepest_ = 0;
  std::uintptr_t lowest_ = UINTPTR_MAX;
  std::uintptr_t highest_ = 0;
};

class Recursion : public ::testing::TestWithParam<CompletionMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, Recursion,
                         ::testing::Values(CompletionMode::mask, CompletionMode::counter));

TEST_P(Recursion, NeedsNoStack) {
  for (const bool dynamic_connections : {false, true}) {
    Chain shallow(dynamic_connections, GetParam(), 10);
    shallow.run();
    Chain deep(dynamic_connections, GetParam(), 100'000);
    deep.run();
    std::printf("stack of callbacks: %llu bytes at depth 10, %llu at depth 100,000\n",
                static_cast<unsigned long long>(shallow.stack_bytes()),
                static_cast<unsigned long long>(deep.stack_bytes()));
    // A frame a level would be a megabyte at least.
    EXPECT_LE(deep.stack_bytes(), shallow.stack_bytes() + 4096);
  }
}

}  // namespace
}  // namespace rockhopper::sim
