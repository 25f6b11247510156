// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// SENDs, receive requests and completion events. A SEND goes into whatever buffer the receiver has
// posted next; the receiver sleeps on a file descriptor until there is something to take, as it
// would with ibv_get_cq_event().
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include <poll.h>

#include "roce/completion_channel.h"
#include "stack/event_fd.h"
#include "support.h"

using example::must;
using namespace rockhopper;

namespace {

constexpr unsigned kMessages = 5;
using Buffer = std::array<char, 32>;

}  // namespace

int main() {
  // What tells of completions, and the queues of them, outlive the nodes that use them.
  const auto bell = must(stack::EventFd::create());
  roce::CompletionChannel channel(bell.get());
  const auto sent = must(roce::CompletionQueue::create(16));
  const auto received = must(roce::CompletionQueue::create(16));
  example::TwoNodes nodes;

  roce::Engine& sender = nodes.near->engine();
  const roce::ProtectionDomain sender_domain = sender.allocate_pd();
  roce::QueuePair* out =
      must(sender.create_qp({.pd = sender_domain, .send_cq = sent.get(), .recv_cq = sent.get()}));

  roce::Engine& receiver = nodes.far->engine();
  const roce::ProtectionDomain receiver_domain = receiver.allocate_pd();
  std::array<Buffer, kMessages> buffers{};
  const roce::MemoryRegion region = must(receiver.register_memory(
      receiver_domain, buffers.data(), sizeof buffers, roce::kAccessLocalWrite));
  roce::QueuePair* in = must(receiver.create_qp(
      {.pd = receiver_domain, .send_cq = received.get(), .recv_cq = received.get()}));
  example::connect(*out, *nodes.near, *nodes.far, *in);
  example::connect(*in, *nodes.far, *nodes.near, *out);

  // A place for each message. Without one the sender would be told to come again later (RNR NAK).
  for (unsigned i = 0; i < kMessages; ++i) {
    const roce::Sge place{region.iova + i * sizeof(Buffer), sizeof(Buffer), region.key};
    example::verify(in->post_recv({.wr_id = i, .sg_list = {&place, 1}}) == roce::PostResult::ok,
                    "a receive request is posted");
  }
  // The bytes of a short message can go into the request itself: no registered memory, no lkey.
  for (unsigned i = 0; i < kMessages; ++i) {
    const std::string text = "message " + std::to_string(i);
    const roce::Sge bytes{
        reinterpret_cast<std::uintptr_t>(text.data()), static_cast<std::uint32_t>(text.size()), {}};
    example::verify(out->post_send({.sg_list = {&bytes, 1},
                                    .opcode = roce::WrOpcode::send,
                                    .send_flags = roce::kSendSignaled | roce::kSendInline}) ==
                        roce::PostResult::ok,
                    "a SEND is posted");
  }

  unsigned count = 0;
  unsigned wakes = 0;
  pollfd wait{.fd = bell->fd(), .events = POLLIN, .revents = 0};
  while (count < kMessages) {
    // Arm the queue, take what is there already, and only then sleep: so no event is missed.
    received->request_notify(roce::Notify::next, &channel);
    roce::Completion completion;
    while (received->poll({&completion, 1}) == 1) {
      const std::string text(buffers[completion.wr_id].data(), completion.byte_len);
      example::verify(completion.status == roce::WcStatus::success &&
                          text == "message " + std::to_string(count),
                      text.c_str());
      ++count;
    }
    if (count == kMessages) break;
    // This thread moves the packets as well, so it looks at the descriptor between turns. Another
    // thread could sleep there while an lcore serves the node (Node::launch).
    while (poll(&wait, 1, 0) == 0) {
      nodes.turn();
    }
    bell->take();
    example::verify(channel.get_event() == received.get(), "the event names the queue");
    ++wakes;
  }
  example::verify(wakes > 0, "the receiver was woken");
  unsigned acknowledged = 0;
  while (acknowledged < kMessages) {
    nodes.turn();
    roce::Completion completion;
    if (sent->poll({&completion, 1}) == 0) continue;
    if (completion.status != roce::WcStatus::success) break;
    ++acknowledged;
  }
  example::verify(acknowledged == kMessages, "the receiver has acknowledged every message");
  return 0;
}
