// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Engines on several lcores, each on its own queue of one loopback port and connected to itself:
//   self-loop ENGINES SECONDS [STEERING]
// Prints the 8-byte WRITEs of each as JSON, in millions a second. What they share (the port, the
// memory channels) shows when two do less than twice as much as one. STEERING:
//   none         the default: each engine has its queue for itself
//   right        what arrives is sorted by queue pair, and is on the right queue already
//   hand-over    all that arrives is on another engine's queue and crosses between the lcores
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rte_lcore.h>

#include "apps/node/node.h"
#include "bench/support.h"
#include "stack/application.h"
#include "stack/clock.h"
#include "stack/eal.h"
#include "stack/mbuf_pool.h"
#include "stack/port.h"

namespace {

using namespace rockhopper;
using bench::must;

constexpr std::uint32_t kOutstanding = 64;
constexpr unsigned kEnginesMax = stack::kShardsMax;

enum class SteeringMode { none, right, hand_over };

/// Sends on another queue than it receives on.
class CrossedLink final : public stack::Link {
 public:
  CrossedLink(stack::Link& receiving, stack::Link& sending)
      : receiving_(receiving), sending_(sending) {}
  std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) override {
    return receiving_.rx_burst(packets, count, now_ns);
  }
  std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) override {
    return sending_.tx_burst(packets, count, now_ns);
  }
  [[nodiscard]] rte_ether_addr mac() const override { return receiving_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return receiving_.mtu(); }

 private:
  stack::Link& receiving_;
  stack::Link& sending_;
};

/// Two queue pairs of one engine that are connected to each other.
class Loop final : public stack::Application {
 public:
  Loop(Node& node, std::uint16_t shard)
      : cq_(must(roce::CompletionQueue::create(4 * kOutstanding))), node_(node), shard_(shard) {
    roce::Engine& engine = node.shard(shard).engine();
    const roce::ProtectionDomain pd = engine.allocate_pd();
    region_ = must(engine.register_memory(pd, memory_.data(), memory_.size(), roce::kAccessAll));
    const roce::QpInit init{.pd = pd,
                            .send_cq = cq_.get(),
                            .recv_cq = cq_.get(),
                            .max_send_wr = kOutstanding,
                            .max_recv_wr = 1,
                            .max_send_sge = 1,
                            .max_recv_sge = 1};
    requester_ = must(engine.create_qp(init));
    roce::QueuePair* responder = must(engine.create_qp(init));
    const bench::ConnectionConfig connection{.path_mtu = roce::PathMtu::mtu_1024};
    bench::connect(*requester_, connection, node.address(), node.address(), responder->number());
    bench::connect(*responder, connection, node.address(), node.address(), requester_->number());
    for (std::uint32_t i = 0; i < kOutstanding; ++i) {
      post();
    }
  }

  void launch(unsigned lcore) { must(node_.launch(shard_, lcore, this)); }

  std::uint64_t turn(std::uint64_t /*now_ns*/) override {
    std::array<roce::Completion, 32> completions;
    const std::size_t count = cq_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].status != roce::WcStatus::success) failed_ = true;
      post();
    }
    done_.store(done_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    return stack::kNever;
  }

  [[nodiscard]] std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool failed() const { return failed_; }
  /// Packets that came from another lcore.
  [[nodiscard]] std::uint64_t taken_over() const {
    return node_.shards() > 1 ? node_.links().shard_link(shard_).counters().taken_over.value() : 0;
  }

 private:
  void post() {
    const roce::Sge from{.addr = region_.iova, .length = 8, .lkey = region_.key};
    if (requester_->post_send({.sg_list = {&from, 1},
                               .opcode = roce::WrOpcode::rdma_write,
                               .send_flags = roce::kSendSignaled,
                               .remote_addr = region_.iova + 8,
                               .rkey = region_.key}) != roce::PostResult::ok) {
      failed_ = true;
    }
  }

  alignas(64) std::atomic<std::uint64_t> done_{0};
  std::array<std::byte, 16> memory_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  Node& node_;
  std::uint16_t shard_;
  roce::MemoryRegion region_;
  roce::QueuePair* requester_ = nullptr;
  bool failed_ = false;
};

/// The queues of one port, and the nodes on them.
struct Bench {
  stack::MbufPool pool;  ///< what is sent stays in the port's rings
  std::unique_ptr<stack::Port> port;
  std::vector<std::unique_ptr<CrossedLink>> crossed;
  std::vector<std::unique_ptr<Loop>> loops;  ///< outlive the engines, which use their queues
  std::vector<std::unique_ptr<Node>> nodes;
};

/// With steering, one node whose shards have a queue each; without, a node on each queue.
Bench set_up(std::uint16_t engines, SteeringMode mode) {
  Bench made;
  made.pool = must(stack::MbufPool::create({.size = 4096u * engines - 1}));
  made.port = must(stack::Port::open({.devargs = "net_ring0", .queues = engines}));
  std::vector<stack::Link*> links;
  for (std::uint16_t i = 0; i < engines; ++i) {
    links.push_back(&made.port->queue(i));
    if (mode == SteeringMode::hand_over) {
      const auto next = static_cast<std::uint16_t>((i + 1) % engines);
      made.crossed.push_back(std::make_unique<CrossedLink>(*links[i], made.port->queue(next)));
      links[i] = made.crossed.back().get();
    }
  }
  NodeConfig config{.mtu = 1500,
                    .addresses = {{stack::IpAddress::from_ipv4(0xc0000201), 24}},
                    .engine = {.max_qp = 2},
                    .packet_pool = made.pool.get()};
  if (mode != SteeringMode::none) {
    config.port = LinkPort{links};
    config.shards = engines;
    made.nodes.push_back(must(Node::open(config)));
    for (std::uint16_t i = 0; i < engines; ++i) {
      made.loops.push_back(std::make_unique<Loop>(*made.nodes.front(), i));
    }
    return made;
  }
  for (std::uint16_t i = 0; i < engines; ++i) {
    config.port = LinkPort{{links[i]}};
    config.host.silent = i > 0;
    made.nodes.push_back(must(Node::open(config)));
    made.loops.push_back(std::make_unique<Loop>(*made.nodes.back(), 0));
  }
  return made;
}

/// Runs all loops for `seconds`; the main lcore only watches the clock.
std::vector<double> measure(Bench& bench, double seconds) {
  unsigned lcore = rte_get_next_lcore(static_cast<unsigned>(-1), 1, 0);
  for (const auto& loop : bench.loops) {
    loop->launch(lcore);
    lcore = rte_get_next_lcore(lcore, 1, 0);
  }
  const auto wait_ns = [](double ns) {
    const timespec duration{static_cast<time_t>(ns / 1e9), static_cast<long>(ns) % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
  };
  wait_ns(0.1e9);  // until all run
  const stack::TscClock clock;
  std::vector<std::uint64_t> before;
  for (const auto& loop : bench.loops) {
    before.push_back(loop->done());
  }
  const std::uint64_t start_ns = clock.now_ns();
  wait_ns(seconds * 1e9);
  std::vector<double> mops;
  for (std::size_t i = 0; i < bench.loops.size(); ++i) {
    mops.push_back(static_cast<double>(bench.loops[i]->done() - before[i]) * 1e3 /
                   static_cast<double>(clock.now_ns() - start_ns));
  }
  for (const auto& node : bench.nodes) {
    node->stop();
  }
  for (const auto& loop : bench.loops) {
    if (loop->failed()) throw std::runtime_error("an operation failed");
  }
  return mops;
}

void run(unsigned engines, double seconds, SteeringMode mode) {
  // The main lcore sleeps, so it may share a CPU.
  auto eal = must(stack::Eal::start({}, {.memory_mb = 512, .lcores = engines + 1}));
  if (rte_lcore_count() < engines + 1) throw std::runtime_error("too few processors");
  Bench bench = set_up(static_cast<std::uint16_t>(engines), mode);
  const std::vector<double> mops = measure(bench, seconds);
  std::uint64_t taken_over = 0;
  for (const auto& loop : bench.loops) {
    taken_over += loop->taken_over();
  }
  fmt::print(R"({{"engines": {}, "mops": [{:.4f}], "taken_over": {}}})"
             "\n",
             engines, fmt::join(mops, ", "), taken_over);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  unsigned engines = 0;
  double seconds = 0;
  const auto number = [](std::string_view text, auto& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
  };
  const std::map<std::string_view, SteeringMode> modes{{"none", SteeringMode::none},
                                                       {"right", SteeringMode::right},
                                                       {"hand-over", SteeringMode::hand_over}};
  const auto mode = modes.find(arguments.size() == 3 ? arguments[2] : "none");
  const bool good = (arguments.size() == 2 || arguments.size() == 3) &&
                    number(arguments[0], engines) && number(arguments[1], seconds) &&
                    engines >= 1 && engines <= kEnginesMax && seconds >= 0.01 && seconds <= 3600 &&
                    mode != modes.end();
  if (!good || (mode->second != SteeringMode::none && !std::has_single_bit(engines)) ||
      (mode->second == SteeringMode::hand_over && engines == 1)) {
    fmt::print(stderr,
               "usage: self-loop ENGINES SECONDS [none|right|hand-over]   ENGINES 1 to {}; with "
               "steering a power of two; more than one to hand over\n",
               kEnginesMax);
    return 2;
  }
  try {
    run(engines, seconds, mode->second);
  } catch (const std::exception& error) {
    fmt::print(stderr, "self-loop: {}\n", error.what());
    return 1;
  }
  return 0;
}
