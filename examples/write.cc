// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A WRITE between two nodes: one puts bytes straight into the other's memory, which takes no part
// in it but for having registered that memory.
//
// The two nodes are in this process, and a cable joins them. With a MemifPort they would be in two
// processes, with a DevicePort on two machines; nothing else would change but how they tell each
// other what is in `Told`.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "apps/node/node.h"
#include "stack/cable.h"
#include "stack/eal.h"
#include "support.h"

using example::must;
using namespace rockhopper;

namespace {

constexpr char kText[] = "Rockhopper: RoCEv2 without an RNIC";

/// What a node tells its peer before they can begin, by whatever way they have: TCP, a file, or the
/// connection manager (roce/cm/connection_manager.h).
struct Told {
  stack::IpAddress address;
  wire::Qpn queue_pair{};
  std::uint64_t memory = 0;      ///< where the peer may write,
  roce::MemoryKey memory_key{};  ///< and the key that says so
};

/// A node with a queue pair and 64 bytes of memory.
struct End {
  /// Completions arrive here. It is declared first, to end after the node that uses it.
  std::unique_ptr<roce::CompletionQueue> completions = must(roce::CompletionQueue::create(16));
  std::array<char, 64> memory{};
  std::unique_ptr<Node> node;
  roce::QueuePair* qp = nullptr;
  roce::MemoryRegion region;

  End(stack::Link& link, const char* address)
      : node(must(Node::open(
            {.port = LinkPort{{&link}}, .addresses = {must(InterfaceAddress::parse(address))}}))) {
    roce::Engine& engine = node->engine();
    const roce::ProtectionDomain domain = engine.allocate_pd();
    region = must(engine.register_memory(domain, memory.data(), memory.size(),
                                         roce::kAccessLocalWrite | roce::kAccessRemoteWrite));
    qp = must(engine.create_qp(
        {.pd = domain, .send_cq = completions.get(), .recv_cq = completions.get()}));
  }

  [[nodiscard]] Told tell() const {
    return {node->address(), qp->number(), region.iova, region.key};
  }

  /// Takes the queue pair to "ready to send", with the peer at its other end.
  void connect(const Told& peer) {
    roce::QpAttributes attributes;
    attributes.dest_qp_num = peer.queue_pair;
    attributes.ah_attr = {.source = node->address(), .destination = peer.address};
    attributes.qp_access_flags = roce::kAccessRemoteWrite;
    must(qp->bring_up(attributes, roce::QpState::rts));
  }
};

}  // namespace

int main() {
  // DPDK's environment without huge pages, devices or root rights. It ends after the nodes.
  const auto eal = must(stack::Eal::start({}, {.memory_mb = 256}));
  const auto cable = must(stack::Cable::create());
  End near(cable->end(0), "10.0.0.1/24");
  End far(cable->end(1), "10.0.0.2/24");
  near.connect(far.tell());
  far.connect(near.tell());

  std::memcpy(near.memory.data(), kText, sizeof kText);
  const roce::Sge source{near.region.iova, sizeof kText, near.region.key};
  const Told to = far.tell();
  const roce::PostResult posted = near.qp->post_send({.sg_list = {&source, 1},
                                                      .opcode = roce::WrOpcode::rdma_write,
                                                      .send_flags = roce::kSendSignaled,
                                                      .remote_addr = to.memory,
                                                      .rkey = to.memory_key});
  example::verify(posted == roce::PostResult::ok, "the request is in the send queue");

  // Nothing moves by itself: a program gives its nodes their turns. What cannot be done ends too,
  // as a completion with an error.
  roce::Completion completion;
  while (near.completions->poll({&completion, 1}) == 0) {
    near.node->turn();
    far.node->turn();
  }
  example::verify(completion.status == roce::WcStatus::success, "the peer has acknowledged it");
  example::verify(std::memcmp(far.memory.data(), kText, sizeof kText) == 0,
                  "the peer has the bytes in its memory");
  std::printf("it reads: %s\n", far.memory.data());
  return 0;
}
