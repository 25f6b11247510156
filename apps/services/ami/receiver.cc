// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/receiver.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "apps/services/ami/completion_id.h"

namespace rockhopper::ami {
namespace {

constexpr unsigned kHandledBurst = 32;

/// Returns what became of message `which` of an arrival.
Status status_of(const Handled& handled, unsigned which) {
  return (handled.unknown >> which & 1) == 0 ? Status::ok : Status::unknown_handler;
}

}  // namespace

Expected<void> Receiver::set_up(LanePort& port, roce::Engine& engine, dc::Endpoint* endpoint,
                                roce::ProtectionDomain pd) {
  const LaneConfig& config = port.lane.config;
  port.buffer_bytes = static_cast<std::uint32_t>(
      MessageHeader::kSize + std::max<std::size_t>(config.eager_bytes, kMaxHeaderBytes));
  port.lengths.resize(config.receive_buffers);
  ROCKHOPPER_TRY(
      port.buffers.set_up(engine, pd, std::size_t{port.buffer_bytes} * config.receive_buffers));
  ROCKHOPPER_TRY(port.payloads.set_up(
      engine, pd, std::size_t{config.max_message_bytes} * config.rendezvous_buffers));
  port.rendezvous.resize(config.rendezvous_buffers);
  for (std::uint32_t i = 0; i < config.rendezvous_buffers; ++i) {
    port.rendezvous[i].bytes =
        port.payloads.memory.data() + std::size_t{i} * config.max_message_bytes;
    port.rendezvous_free.push_back(i);
  }

  ROCKHOPPER_TRY(port.recv_cq, roce::CompletionQueue::create(config.receive_buffers));
  ROCKHOPPER_TRY(
      port.srq,
      roce::own(engine,
                engine.create_srq({.pd = pd, .attributes = {.max_wr = config.receive_buffers}})));
  if (endpoint == nullptr) return {};
  ROCKHOPPER_TRY(port.dct,
                 dc::own(*endpoint, endpoint->create_dct({.pd = pd,
                                                          .srq = port.srq.get(),
                                                          .recv_cq = port.recv_cq.get(),
                                                          .access_flags = roce::kAccessAll,
                                                          .path_mtu = parts_.config.path_mtu})));
  return {};
}

void Receiver::open(LanePort& port) {
  for (std::uint32_t i = 0; i < port.lane.config.receive_buffers; ++i) {
    post_receive(port, i);
  }
}

void Receiver::post_receive(LanePort& port, std::uint32_t buffer) {
  const roce::Sge to{reinterpret_cast<std::uintptr_t>(port.buffer(buffer)), port.buffer_bytes,
                     port.buffers.region.key()};
  // It has room for all of them.
  (void)port.srq->post_recv({.wr_id = buffer, .sg_list = {&to, 1}});
}

// Messages.

bool Receiver::poll(LanePort& port) {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = port.recv_cq->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    if (!accept(port, completions[i])) {
      post_receive(port, static_cast<std::uint32_t>(completions[i].wr_id));
    }
  }
  return count > 0;
}

bool Receiver::accept(LanePort& port, const roce::Completion& completion) {
  if (completion.status != roce::WcStatus::success) {
    parts_.counters.rx_failed.add();
    return false;
  }
  // A WRITE with immediate has its length from elsewhere: the buffer may hold less.
  if (completion.opcode != roce::WcOpcode::recv) {
    parts_.counters.rx_not_send.add();
    return false;
  }
  const auto buffer = static_cast<std::uint32_t>(completion.wr_id);
  const std::span<const std::byte> send(port.buffer(buffer), completion.byte_len);
  Messages messages(send);
  const auto message = messages.next();
  if (!message) {
    parts_.counters.rx_malformed.add();
    return false;
  }
  if (message->header_length > kMaxHeaderBytes) {
    parts_.counters.rx_long_header.add();
    return false;
  }
  Peer* peer = port.find(message->source);
  if (peer == nullptr || peer->failed || !peer->route->brings(completion.qp_num)) {
    parts_.counters.rx_unknown_source.add();
    return false;
  }
  sender_.signs().on_heard(*peer);
  switch (message->type) {
    case MessageHeader::Type::eager:
      return accept_eager(*peer, send, buffer);
    case MessageHeader::Type::rendezvous:
      announce(*peer, *message, messages.behind());
      return false;
    case MessageHeader::Type::reply:
      parts_.counters.rx_reply_messages.add();
      on_replies(*peer, *message, messages.behind());
      return false;
  }
  return false;
}

bool Receiver::accept_eager(Peer& peer, std::span<const std::byte> send, std::uint32_t buffer) {
  Messages messages(send);
  std::size_t count = 0;
  std::size_t replies = 0;
  for (; const auto message = messages.next(); ++count) {
    if (message->header_length > kMaxHeaderBytes) {
      parts_.counters.rx_long_header.add();
      return false;
    }
    if (message->source != peer.id) {
      parts_.counters.rx_unknown_source.add();
      return false;
    }
    if (message->wants_reply) ++replies;
  }
  if (messages.malformed()) {
    parts_.counters.rx_malformed.add();
    return false;
  }
  parts_.counters.rx_eager.add(count);
  parts_.counters.rx_shared.add(count - 1);
  if (!peer.replies.accepts(replies)) {
    parts_.counters.rx_over_limit.add();
    return false;
  }
  peer.replies.accept(replies);
  peer.port.lengths[buffer] = replies > 0 ? static_cast<std::uint32_t>(send.size()) : 0;
  return peer.port.arrive({.source = peer.id,
                           .buffer = buffer,
                           .length = static_cast<std::uint32_t>(send.size()),
                           .bytes = send.data()});
}

void Receiver::on_replies(Peer& peer, const MessageHeader& message, const std::byte* entries) {
  for (std::uint32_t i = 0; i < message.length; ++i, entries += Reply::kSize) {
    const Reply reply =
        Reply::parse(std::span<const std::byte, Reply::kSize>(entries, Reply::kSize));
    const bool awaited = sender_.on_reply(peer, reply);
    (awaited ? parts_.counters.rx_replies : parts_.counters.stale_replies).add();
  }
  sender_.drain_later(peer);
}

// Payloads that are read.

void Receiver::announce(Peer& peer, const MessageHeader& message, const std::byte* header) {
  parts_.counters.rx_rendezvous.add();
  if (!peer.replies.accepts(1) || peer.to_read.full()) {
    parts_.counters.rx_over_limit.add();
    return;
  }
  peer.replies.accept(1);
  if (message.length > peer.port.lane.config.max_message_bytes) {
    parts_.counters.rx_too_long.add();
    sender_.owe(peer, {.tag = message.tag, .status = Status::refused});
    return;
  }
  Announced announced{.message = message};
  std::memcpy(announced.header.data(), header, message.header_length);
  peer.to_read.push(announced);
  if (!peer.reading_hook.is_linked()) peer.port.reading.push_back(peer);
}

void Receiver::read_payloads(LanePort& port) {
  PeerList<&Peer::reading_hook> full;
  while (!port.reading.empty() && !port.rendezvous_free.empty()) {
    Peer& peer = port.reading.front();
    const std::uint32_t index = port.rendezvous_free.back();
    const Posted posted = read(port, peer, index);
    port.reading.pop_front();
    if (posted == Posted::full || posted == Posted::waits) {
      full.push_back(peer);  // the next turn tries again; others do not wait for it
      continue;
    }
    if (posted != Posted::yes) {
      sender_.fail(peer);
      continue;
    }
    port.rendezvous_free.pop_back();
    port.rendezvous[index].peer = &peer;
    port.rendezvous[index].announced = peer.to_read.front();
    peer.to_read.pop();
    if (!peer.to_read.empty()) port.reading.push_back(peer);
  }
  port.reading.splice(port.reading.begin(), full);
}

Posted Receiver::read(LanePort& port, Peer& peer, std::uint32_t index) {
  const MessageHeader& message = peer.to_read.front().message;
  const roce::Sge to{reinterpret_cast<std::uintptr_t>(port.rendezvous[index].bytes), message.length,
                     port.payloads.region.key()};
  return peer.route->post(
      {.wr_id = CompletionId::of(CompletionId::payload, port.index << 16 | index),
       .sg_list = {&to, message.length > 0 ? 1u : 0u},
       .opcode = roce::WrOpcode::rdma_read,
       .send_flags = roce::kSendSignaled,
       .remote_addr = message.addr,
       .rkey = message.rkey});
}

void Receiver::on_payload(LanePort& port, std::uint32_t index, roce::WcStatus completed) {
  const RendezvousBuffer& buffer = port.rendezvous[index];
  const MessageHeader& message = buffer.announced.message;
  Peer& peer = *buffer.peer;
  const Status status = ami::status_of(completed, peer);
  if (status != Status::ok) {
    port.rendezvous_free.push_back(index);
    parts_.counters.rx_unreadable.add();
    sender_.owe(peer, {.tag = message.tag, .status = status});
    if (status == Status::unreachable) sender_.fail(peer);
    return;
  }
  port.arrive({.kind = Arrival::Kind::rendezvous,
               .source = peer.id,
               .handler = message.handler,
               .header_length = message.header_length,
               .buffer = index,
               .length = message.length,
               .bytes = buffer.bytes,
               .header = buffer.announced.header.data()});
}

// What the application has handled.

bool Receiver::take_handled(LanePort& port) {
  Handled handled;
  unsigned taken = 0;
  for (; taken < kHandledBurst && port.lane.handled.pop(handled); ++taken) {
    if (handled.rendezvous) {
      const RendezvousBuffer& buffer = port.rendezvous[handled.buffer];
      sender_.owe(*buffer.peer,
                  {.tag = buffer.announced.message.tag, .status = status_of(handled, 0)});
      port.rendezvous_free.push_back(handled.buffer);
    } else {
      reply(port, handled);
      post_receive(port, handled.buffer);
    }
  }
  return taken > 0;
}

/// To those messages of a SEND that want it.
void Receiver::reply(LanePort& port, const Handled& handled) {
  Messages messages({port.buffer(handled.buffer), port.lengths[handled.buffer]});
  for (unsigned i = 0; const auto message = messages.next(); ++i) {
    if (!message->wants_reply) continue;
    sender_.owe(*port.find(message->source),
                {.tag = message->tag, .status = status_of(handled, i)});
  }
}

}  // namespace rockhopper::ami
