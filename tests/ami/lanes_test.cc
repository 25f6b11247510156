// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// AM-15, AM-30: 64 lanes, each a FIFO and a context of its own, on one adapter. Counted in
// instructions and turns of the adapter, not in time.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/ami/star.h"
#include "tests/ami/transport_case.h"

namespace rockhopper::sim {
namespace {

using ami::CompletionMode;
using ami::Injected;
using ami::Status;

constexpr unsigned kLanes = 64;

enum class Stalled : std::uint8_t { none, application, peer, peer_without_callbacks };

struct Result {
  std::vector<std::uint64_t> completed;  ///< of each lane
  std::uint64_t turns = 0;               ///< of the adapter
};

/// All lanes put whenever there is room, to a lane of their own at another node; until those that
/// are not stalled have completed `wanted` together. Lane 0 may stall, in one way or another.
class Lanes {
 public:
  Lanes(bool dynamic_connections, CompletionMode mode, Stalled stalled)
      : stalled_(stalled),
        star_({.nodes = 3,
               .dynamic_connections = dynamic_connections,
               .timeout = 20,
               .adapter = {.transfers = 1024, .dcis = 128}}) {
    const roce::MemoryKey key = star_.expose(1, theirs_);
    const roce::MemoryKey other_key = star_.expose(2, theirs_);
    for (unsigned i = 0; i < kLanes; ++i) {
      ami::LaneConfig config;
      config.fifo.completion = mode;
      config.fifo.slots = 1024;
      config.receive_buffers = 4;
      config.max_message_bytes = 4096;
      senders_.push_back(&star_.add_lane(0, config, 0));
      // The stalled one's peer is at a node that is gone.
      const bool gone = i == 0 && stalls_peer();
      StarLane& peer = star_.add_lane(gone ? 2 : 1, config, 0);
      star_.connect(*senders_[i], peer);
      to_.push_back({.endpoint = peer.id,
                     .addr = reinterpret_cast<std::uintptr_t>(&theirs_[i]),
                     .rkey = gone ? other_key : key});
    }
    completed_.resize(kLanes);
  }

  Result run(std::uint64_t wanted) {
    star_.open();
    if (stalls_peer()) star_.kill(2);
    star_.on_turn = [this](unsigned node) {
      if (node != 0) return;
      ++turns_;
      for (unsigned i = 0; i < kLanes; ++i) {
        while (inject(i) == Injected::yes) {
        }
      }
    };
    senders_[0]->stopped = stalled_ == Stalled::application;
    star_.wake();
    const auto others = [this] {
      return std::accumulate(completed_.begin() + 1, completed_.end(), std::uint64_t{0});
    };
    EXPECT_TRUE(star_.run_until([&] { return others() >= wanted; }, 2'000'000'000))
        << "completed: " << others();
    return {completed_, turns_};
  }

 private:
  [[nodiscard]] bool stalls_peer() const {
    return stalled_ == Stalled::peer || stalled_ == Stalled::peer_without_callbacks;
  }
  Injected inject(unsigned i) {
    const bool callback = i != 0 || stalled_ != Stalled::peer_without_callbacks;
    return senders_[i]->context->put(
        std::as_bytes(std::span(&word_, 1)), to_[i],
        {.callback = {.function = callback ? [](void* to, std::uint64_t,
                                                Status) { ++*static_cast<std::uint64_t*>(to); }
                                           : static_cast<ami::Callback::Function>(nullptr),
                      .context = &completed_[i]}});
  }

  Stalled stalled_;
  Star star_;
  std::vector<std::uint64_t> theirs_ = std::vector<std::uint64_t>(kLanes);
  std::vector<StarLane*> senders_;
  std::vector<ami::Remote> to_;
  std::vector<std::uint64_t> completed_;
  std::uint64_t turns_ = 0;
  std::uint64_t word_ = 0;
};

class LanesOfOneAdapter : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, LanesOfOneAdapter,
                         ::testing::Values(Case{false, CompletionMode::mask},
                                           Case{false, CompletionMode::counter},
                                           Case{true, CompletionMode::mask}),
                         name_of);

constexpr std::uint64_t kWanted = 64 * 1000;

TEST_P(LanesOfOneAdapter, EachHasItsShareAndAStalledOneTakesNothingFromIt) {
  const auto [dynamic_connections, mode] = GetParam();
  const Result alone = Lanes(dynamic_connections, mode, Stalled::none).run(kWanted);
  const auto share = static_cast<double>(std::accumulate(alone.completed.begin(),
                                                         alone.completed.end(), std::uint64_t{0})) /
                     kLanes;
  const auto [least, most] = std::minmax_element(alone.completed.begin(), alone.completed.end());
  std::printf("each lane %llu to %llu, in %llu turns\n", static_cast<unsigned long long>(*least),
              static_cast<unsigned long long>(*most), static_cast<unsigned long long>(alone.turns));
  EXPECT_GE(static_cast<double>(*least), 0.8 * share);
  for (const auto& [stalled, what] :
       {std::pair{Stalled::application, "application"}, std::pair{Stalled::peer, "peer"},
        std::pair{Stalled::peer_without_callbacks, "peer, without callbacks"}}) {
    const Result beside = Lanes(dynamic_connections, mode, stalled).run(kWanted);
    const auto [slowest, fastest] =
        std::minmax_element(beside.completed.begin() + 1, beside.completed.end());
    std::printf("beside a stalled %s: each lane %llu to %llu, in %llu turns\n", what,
                static_cast<unsigned long long>(*slowest),
                static_cast<unsigned long long>(*fastest),
                static_cast<unsigned long long>(beside.turns));
    EXPECT_GE(static_cast<double>(*slowest), 0.8 * share) << what;
    EXPECT_LE(static_cast<double>(beside.turns), 1.2 * static_cast<double>(alone.turns)) << what;
  }
}

}  // namespace
}  // namespace rockhopper::sim
