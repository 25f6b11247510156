// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Dynamic connections: one initiator writes to many nodes. It has one context and one send queue,
// however many targets there are: it connects to each as requests for it come up, and to the next
// when these are done. A target is known by its node's address, a number and an access key.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stack/switched_link.h"
#include "support.h"

using example::must;
using namespace rockhopper;

namespace {

constexpr unsigned kTargets = 6;
constexpr unsigned kRounds = 3;

NodeConfig config_at(stack::Link& link, const char* address) {
  NodeConfig config{.port = LinkPort{{&link}},
                    .addresses = {must(InterfaceAddress::parse(address))}};
  config.mtu = 1500;
  config.dc.emplace();  // with what there is by default
  return config;
}

/// A node whose memory the initiator may write.
struct Target {
  explicit Target(stack::Link& link, unsigned number)
      : node(must(Node::open(
            config_at(link, ("10.0.0." + std::to_string(10 + number) + "/24").c_str())))) {
    roce::Engine& engine = node->engine();
    const roce::ProtectionDomain domain = engine.allocate_pd();
    region = must(engine.register_memory(domain, &word, sizeof word,
                                         roce::kAccessLocalWrite | roce::kAccessRemoteWrite));
    // Messages of all initiators would take receive requests from one shared queue.
    roce::SharedReceiveQueue* srq =
        must(engine.create_srq({.pd = domain, .attributes = {.max_wr = 1}}));
    dct = must(node->dc().create_dct({.pd = domain,
                                      .srq = srq,
                                      .recv_cq = completions.get(),
                                      .access_flags = roce::kAccessRemoteWrite}));
  }

  std::unique_ptr<roce::CompletionQueue> completions = must(roce::CompletionQueue::create(16));
  std::uint64_t word = 0;
  std::unique_ptr<Node> node;
  roce::MemoryRegion region;
  dc::Dct* dct = nullptr;
};

}  // namespace

int main() {
  const auto eal = must(stack::Eal::start({}, {.memory_mb = 512}));
  // A cable to each target, which a switch joins at the initiator's end.
  std::vector<std::unique_ptr<stack::Cable>> cables;
  const stack::MbufPool pool = must(stack::MbufPool::create({.size = 8191}));
  stack::SwitchedLink::Config joined{.pool = pool.get()};
  for (unsigned i = 0; i < kTargets; ++i) {
    cables.push_back(must(stack::Cable::create({.mtu = 1500, .packets = 256})));
    joined.ports.push_back({&cables[i]->end(0), [] { return true; }});
  }
  stack::SwitchedLink link(joined);

  const auto completions = must(roce::CompletionQueue::create(64));
  NodeConfig config = config_at(link, "10.0.0.1/24");
  config.packet_pool = pool.get();  // the switch may have packets of it until its end
  const auto initiator = must(Node::open(config));
  std::vector<std::unique_ptr<Target>> targets;
  for (unsigned i = 0; i < kTargets; ++i) {
    targets.push_back(std::make_unique<Target>(cables[i]->end(1), i));
  }

  const roce::ProtectionDomain domain = initiator->engine().allocate_pd();
  dc::Dci* dci = must(initiator->dc().create_dci({.pd = domain, .send_cq = completions.get()}));
  std::vector<roce::AddressHandle*> ways;
  for (const auto& target : targets) {
    ways.push_back(must(initiator->engine().create_ah(
        domain, {.source = initiator->address(), .destination = target->node->address()})));
  }

  // One after the other to each target, and that several times.
  unsigned posted = 0;
  for (unsigned round = 1; round <= kRounds; ++round) {
    for (unsigned i = 0; i < kTargets; ++i) {
      const std::uint64_t value = round * 100 + i;
      const roce::Sge bytes{reinterpret_cast<std::uintptr_t>(&value), sizeof value, {}};
      const roce::PostResult result =
          dci->post_send({.sg_list = {&bytes, 1},
                          .opcode = roce::WrOpcode::rdma_write,
                          .send_flags = roce::kSendSignaled | roce::kSendInline,
                          .remote_addr = targets[i]->region.iova,
                          .rkey = targets[i]->region.key,
                          .ah = ways[i],
                          .remote_qpn = targets[i]->dct->number(),
                          .dc_access_key = targets[i]->dct->access_key()});
      if (result == roce::PostResult::ok) ++posted;
    }
  }
  example::verify(posted == kRounds * kTargets, "one send queue has the requests to all targets");
  unsigned done = 0;
  bool good = true;
  while (done < posted) {
    initiator->turn();
    for (const auto& target : targets) {
      target->node->turn();
    }
    roce::Completion completion;
    while (completions->poll({&completion, 1}) == 1) {
      good = good && completion.status == roce::WcStatus::success;
      ++done;
    }
  }
  example::verify(good, "each target has acknowledged each WRITE");
  for (unsigned i = 0; i < kTargets; ++i) {
    good = good && targets[i]->word == kRounds * 100 + i && targets[i]->dct->violations() == 0;
  }
  example::verify(good, "each target has the last value that was for it");
  example::verify(initiator->dc().counters().tx_connect.value() >= kTargets,
                  "one initiator has connected to all of them");
  return 0;
}
