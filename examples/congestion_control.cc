// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A congestion control of one's own: a window that grows by a packet a round trip and halves when
// packets are lost, as TCP's once did. It is put to the test in virtual time, before a bottleneck
// whose queue has room for 32 packets, against no control at all.
#include "roce/congestion/congestion_control.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "roce/random.h"
#include "stack/mbuf_pool.h"
#include "stack/sim/network.h"
#include "support.h"

using example::must;
using namespace rockhopper;

namespace {

constexpr std::uint64_t kBottleneck = 1'000'000'000;  // bits per second
constexpr std::uint32_t kQueuePackets = 32;
constexpr std::size_t kBytes = 4 << 20;

/// Additive increase, multiplicative decrease. Told what happens to the queue pair's packets, and
/// asked before it sends; it has no timers and no memory to allocate.
class Aimd final : public roce::CongestionControl {
 public:
  void reset() override { window_ = kFirstWindow; }
  void on_ack(std::uint32_t packets, std::uint64_t rtt_ns, std::uint64_t /*now_ns*/) override {
    window_ = std::min(window_ + packets / window_, kLargestWindow);
    if (rtt_ns != 0) rtt_ns_ = rtt_ns;
  }
  void on_loss(bool by_timeout, std::uint64_t now_ns) override {
    // Losses of one round trip are one sign.
    if (now_ns < last_loss_ns_ + rtt_ns_) return;
    last_loss_ns_ = now_ns;
    window_ = by_timeout ? 1 : std::max(window_ / 2, 1.0);
  }
  [[nodiscard]] std::uint64_t rate(std::uint64_t /*now_ns*/) override { return roce::kUnlimited; }
  [[nodiscard]] std::uint32_t window_packets() const override {
    return static_cast<std::uint32_t>(window_);
  }
  [[nodiscard]] bool uses_acks() const override { return true; }

 private:
  static constexpr double kFirstWindow = 4;
  static constexpr double kLargestWindow = 1024;
  double window_ = kFirstWindow;
  std::uint64_t rtt_ns_ = 0;
  std::uint64_t last_loss_ns_ = 0;
};

struct Outcome {
  bool complete = false;
  double gbit_per_s = 0;  ///< of payload
  std::uint64_t dropped = 0;
};

/// Writes kBytes over the bottleneck, in virtual time.
Outcome transfer(const roce::CongestionConfig& congestion) {
  const stack::MbufPool pool = must(stack::MbufPool::create({.size = 4095}));
  stack::sim::Network network;
  const auto first = network.add_host();
  const auto second = network.add_host();
  network.add_link(first, second, {.delay_ns = 20'000, .mtu = 1500});
  must(network.build());
  const auto completions = must(roce::CompletionQueue::create(16));
  const auto none = must(roce::CompletionQueue::create(1));  // the target has no requests
  std::vector<std::uint8_t> source(kBytes, 7);
  std::vector<std::uint8_t> target(kBytes);
  roce::SeededRandom random(1);
  NodeConfig config{.port = LinkPort{{&network.nic(first)}},
                    .addresses = {must(InterfaceAddress::parse("10.0.0.1/24"))},
                    .engine = {.random = &random},
                    .clock = &network.clock(),
                    .packet_pool = pool.get()};
  config.faults =
      stack::FaultConfig{.tx = {.rate_bits_per_s = kBottleneck, .queue_packets = kQueuePackets}};
  const auto near = must(Node::open(config));
  config.port = LinkPort{{&network.nic(second)}};
  config.addresses = {must(InterfaceAddress::parse("10.0.0.2/24"))};
  config.faults.reset();
  const auto far = must(Node::open(config));

  const roce::ProtectionDomain near_domain = near->engine().allocate_pd();
  const roce::ProtectionDomain far_domain = far->engine().allocate_pd();
  const roce::MemoryRegion from = must(
      near->engine().register_memory(near_domain, source.data(), kBytes, roce::kAccessLocalWrite));
  const roce::MemoryRegion to =
      must(far->engine().register_memory(far_domain, target.data(), kBytes, roce::kAccessAll));
  roce::QueuePair* out = must(near->engine().create_qp(
      {.pd = near_domain, .send_cq = completions.get(), .recv_cq = completions.get()}));
  roce::QueuePair* in = must(
      far->engine().create_qp({.pd = far_domain, .send_cq = none.get(), .recv_cq = none.get()}));
  example::connect(*out, *near, *far, *in);
  example::connect(*in, *far, *near, *out);
  must(out->set_congestion_control(congestion));

  const roce::Sge bytes{from.iova, kBytes, from.key};
  const roce::PostResult posted = out->post_send({.sg_list = {&bytes, 1},
                                                  .opcode = roce::WrOpcode::rdma_write,
                                                  .send_flags = roce::kSendSignaled,
                                                  .remote_addr = to.iova,
                                                  .rkey = to.key});
  if (posted != roce::PostResult::ok) return {};
  const std::uint64_t start_ns = network.now_ns();
  roce::Completion completion;
  while (completions->poll({&completion, 1}) == 0) {
    const bool near_moved = near->turn();
    const bool far_moved = far->turn();
    if (near_moved || far_moved) continue;
    network.run_until(std::max(network.now_ns() + 1,
                               std::min(near->next_deadline_ns(), far->next_deadline_ns())));
  }
  Outcome outcome{.complete = completion.status == roce::WcStatus::success && source == target};
  outcome.gbit_per_s = 8.0 * kBytes / static_cast<double>(network.now_ns() - start_ns);
  near->visit_counters([&](const char* /*group*/, const char* name, std::uint64_t value) {
    if (std::string(name) == "tx_dropped_queue_full") outcome.dropped = value;
  });
  return outcome;
}

}  // namespace

int main() {
  const auto eal = must(stack::Eal::start({}, {.memory_mb = 256}));
  const Outcome without = transfer({});
  // Each queue pair with this configuration gets a control of its own from the function.
  const Outcome with = transfer({.algorithm = roce::CongestionAlgorithm::custom,
                                 .make = [] { return std::make_unique<Aimd>(); }});
  std::printf("without: %.3f Gbit/s, %llu packets dropped; with: %.3f Gbit/s, %llu dropped\n",
              without.gbit_per_s, static_cast<unsigned long long>(without.dropped), with.gbit_per_s,
              static_cast<unsigned long long>(with.dropped));
  example::verify(without.complete && with.complete, "all bytes arrive either way");
  example::verify(with.dropped * 10 < without.dropped,
                  "the control has the bottleneck drop a tenth as much, or less");
  example::verify(with.gbit_per_s > without.gbit_per_s, "and more gets through");
  return 0;
}
