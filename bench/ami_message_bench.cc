// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What an active message of 8 bytes costs its sender and its receiver: application, adapter and
// engine. Without a link.
#include <array>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>
#include <rte_cycles.h>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"
#include "bench/engine_pair.h"

namespace rockhopper::bench {
namespace {

constexpr std::uint16_t kHandler = 1;
constexpr std::uint32_t kWindow = 64;  ///< injected in a turn

/// Adapter, lane and context of each side, joined by queue pairs.
class Nodes {
 public:
  Nodes() : pair_({}) {
    std::array<roce::QueuePair*, 2> qps{};
    for (const auto side : {EnginePair::requester, EnginePair::responder}) {
      Node& node = nodes_[side];
      node.adapter = must(
          ami::Adapter::create(pair_.engine(side), nullptr, {.path_mtu = roce::PathMtu::mtu_4096}));
      node.lane = must(node.adapter->add_lane({.self = static_cast<ami::EndpointId>(side)}));
      node.context = std::make_unique<ami::Context>(*node.lane);
      node.context->set_handler(kHandler, [&node](const ami::Message&) { ++node.handled; });
      qps[side] = must(pair_.engine(side).create_qp(node.adapter->qp_init(*node.lane)));
    }
    for (const auto side : {EnginePair::requester, EnginePair::responder}) {
      const auto other =
          side == EnginePair::requester ? EnginePair::responder : EnginePair::requester;
      connect(*qps[side], {}, EnginePair::address(side), EnginePair::address(other),
              qps[other]->number());
      Node& node = nodes_[side];
      must(node.adapter->add_peer(*node.lane, static_cast<ami::EndpointId>(other), *qps[side]));
      must(node.adapter->open(*node.lane));
    }
  }
  ~Nodes() {
    for (Node& node : nodes_) {
      node.context.reset();
    }
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// Injects what there is room for, has it sent, handled and completed. How many were handled.
  std::uint64_t turn(unsigned callbacks_percent) {
    Node& sender = nodes_[EnginePair::requester];
    Node& receiver = nodes_[EnginePair::responder];
    const std::uint64_t before = receiver.handled;
    now_ns_ += 1000;
    timed(sender, [&] {
      for (std::uint32_t i = 0; i < kWindow && sent_ - called_ < 2 * kWindow; ++i) {
        const bool callback = callbacks_percent == 100;
        const ami::Completion completion{
            .callback = {.function = callback ? &on_end : nullptr, .context = this}};
        if (sender.context->send(EnginePair::responder, kHandler, {},
                                 std::as_bytes(std::span(&payload_, 1)),
                                 completion) == ami::Injected::again) {
          break;
        }
        sent_ += callback ? 1 : 0;
      }
      for (std::uint32_t i = 0; i < 2 * kWindow / 16; ++i) {
        (void)sender.adapter->progress(now_ns_);
      }
    });
    for (std::uint32_t i = 0; i < kWindow / 32; ++i) {
      pair_.exchange();
    }
    timed(receiver, [&] {
      for (std::uint32_t i = 0; i < kWindow / 32; ++i) {
        (void)receiver.adapter->progress(now_ns_);
      }
      receiver.context->advance();
      (void)receiver.adapter->progress(now_ns_);
    });
    timed(sender, [&] {
      (void)sender.adapter->progress(now_ns_);
      sender.context->advance();
    });
    return receiver.handled - before;
  }

  /// Of a side since the last call.
  [[nodiscard]] std::uint64_t take_cycles(EnginePair::Side side) {
    return pair_.take_cycles(side) + std::exchange(nodes_[side].cycles, 0);
  }

 private:
  struct Node {
    std::unique_ptr<ami::Adapter> adapter;
    ami::Lane* lane = nullptr;
    std::unique_ptr<ami::Context> context;
    std::uint64_t handled = 0;
    std::uint64_t cycles = 0;
  };

  static void on_end(void* self, std::uint64_t, ami::Status) {
    ++static_cast<Nodes*>(self)->called_;
  }
  template <typename Part>
  void timed(Node& node, Part&& part) {
    const std::uint64_t start = rte_rdtsc();
    part();
    node.cycles += rte_rdtsc() - start;
  }

  EnginePair pair_;
  std::array<Node, 2> nodes_;
  std::uint64_t payload_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t called_ = 0;
  std::uint64_t now_ns_ = 0;
};

/// Argument: percent of the messages that have a callback.
template <EnginePair::Side kSide>
void message(benchmark::State& state) {
  Nodes nodes;
  std::uint64_t handled = 0;
  for (auto _ : state) {
    handled += nodes.turn(static_cast<unsigned>(state.range(0)));
    state.SetIterationTime(static_cast<double>(nodes.take_cycles(kSide)) /
                           static_cast<double>(rte_get_tsc_hz()));
  }
  if (handled == 0) state.SkipWithError("no message has been handled");
  state.SetItemsProcessed(static_cast<std::int64_t>(handled));
}
BENCHMARK(message<EnginePair::requester>)
    ->Name("active_message/sender")
    ->ArgName("callbacks")
    ->Arg(0)
    ->Arg(100)
    ->UseManualTime();
BENCHMARK(message<EnginePair::responder>)
    ->Name("active_message/receiver")
    ->ArgName("callbacks")
    ->Arg(0)
    ->Arg(100)
    ->UseManualTime();

}  // namespace
}  // namespace rockhopper::bench
