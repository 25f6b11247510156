// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What comes back from the transport: completions, messages, replies.
#include <array>
#include <cstring>
#include <utility>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/completion_id.h"
#include "apps/services/ami/lane_port.h"

namespace rockhopper::ami {
namespace {

constexpr unsigned kHandledBurst = 32;

Status status_of(roce::WcStatus status, const Peer& peer) {
  switch (status) {
    case roce::WcStatus::success:
      return Status::ok;
    case roce::WcStatus::rem_access_err:
    case roce::WcStatus::rem_inv_req_err:
    case roce::WcStatus::rem_op_err:
      return Status::refused;
    case roce::WcStatus::wr_flush_err:
      return peer.failed ? Status::unreachable : Status::flushed;
    case roce::WcStatus::outcome_unknown:
      return Status::outcome_unknown;
    case roce::WcStatus::retry_exc_err:
    case roce::WcStatus::rnr_retry_exc_err:
    case roce::WcStatus::rem_abort_err:
      return Status::unreachable;
    default:
      return Status::invalid;
  }
}

/// Of message `which` of an arrival.
Status status_of(const Handled& handled, unsigned which) {
  return (handled.unknown >> which & 1) == 0 ? Status::ok : Status::unknown_handler;
}

}  // namespace

bool Adapter::poll_sends() {
  const auto completions = poll(*send_cq_);
  for (const roce::Completion& completion : completions) on_sent(completion);
  return !completions.empty();
}

void Adapter::on_sent(const roce::Completion& completion) {
  const CompletionId id = CompletionId::from(completion.wr_id);
  switch (id.kind) {
    case CompletionId::transfer: {
      // They stay until all their parts are complete.
      Transfer* transfer = transfers_->find(id.value);
      const Status status = status_of(completion.status, *transfer->peer);
      while (transfer != nullptr) on_part(*std::exchange(transfer, transfer->behind), status);
      break;
    }
    case CompletionId::untracked:
    case CompletionId::probe: {
      Peer& peer = *peers_[id.value];
      const Status status = status_of(completion.status, peer);
      if (id.kind == CompletionId::probe) peer.probed = false;
      if (status == Status::ok) peer.heard_ns = now_ns_;
      if (status == Status::unreachable) fail_peer(peer);
      if (id.kind == CompletionId::untracked) counters_.transfers_failed.add();
      break;
    }
    case CompletionId::payload: {
      LanePort& port = *ports_[id.value >> 16];
      const std::uint32_t buffer = id.value & 0xffff;
      on_payload(port, buffer, status_of(completion.status, *port.rendezvous[buffer].peer));
      break;
    }
  }
}

void Adapter::on_part(Transfer& transfer, Status status) {
  Peer& peer = *transfer.peer;
  --transfer.parts_out;
  if (status != Status::ok && transfer.status == Status::ok) {
    transfer.status = status;
    stop_awaiting(transfer);
  }
  settle(transfer);
  if (status == Status::unreachable) fail_peer(peer);
}

void Adapter::end_all(Peer& peer, Status status) {
  while (!peer.waiting.empty()) {
    Transfer& transfer = peer.waiting.front();
    peer.waiting.pop_front();
    transfer.posted = true;
    if (transfer.status == Status::ok) transfer.status = status;
    settle(transfer);
  }
  while (!peer.awaiting.empty()) {
    Transfer& transfer = peer.awaiting.front();
    stop_awaiting(transfer);
    transfer.status = status;
    settle(transfer);
  }
}

void Adapter::fail_peer(Peer& peer) {
  if (peer.failed) return;
  peer.failed = true;
  counters_.peers_failed.add();
  peer.replies.clear();
  peer.to_read.clear();
  if (peer.reading_hook.is_linked()) {
    peer.port.reading.erase(peer.port.reading.iterator_to(peer));
  }
  if (peer.drain_hook.is_linked()) to_drain_.erase(to_drain_.iterator_to(peer));
  end_all(peer, Status::unreachable);
  tell_failed(peer.port, peer.id);
}

void Adapter::tell_failed(LanePort& port, EndpointId id) {
  if (port.told_failed[id]) return;
  port.told_failed[id] = true;
  port.arrive({.kind = Arrival::Kind::peer_failed, .source = id});
}

void Adapter::close(Lane& lane) {
  LanePort& port = port_of(lane);
  if (!port.closed) port.arrive({.kind = Arrival::Kind::closed});
  port.closed = true;
  for (Peer* peer : port.peers) {
    if (peer != nullptr) end_all(*peer, Status::canceled);
  }
}

bool Adapter::poll_receives(LanePort& port) {
  const auto completions = poll(*port.recv_cq);
  for (const roce::Completion& completion : completions) {
    if (!accept(port, completion)) {
      post_receive(port, static_cast<std::uint32_t>(completion.wr_id));
    }
  }
  return !completions.empty();
}

bool Adapter::accept(LanePort& port, const roce::Completion& completion) {
  if (completion.status != roce::WcStatus::success) {
    counters_.rx_failed.add();
    return false;
  }
  // A WRITE with immediate has its length from elsewhere: the buffer may hold less.
  if (completion.opcode != roce::WcOpcode::recv) {
    counters_.rx_not_send.add();
    return false;
  }
  const auto buffer = static_cast<std::uint32_t>(completion.wr_id);
  const std::span<const std::byte> send(port.buffer(buffer), completion.byte_len);
  Messages messages(send);
  const auto message = messages.next();
  if (!message) {
    counters_.rx_malformed.add();
    return false;
  }
  if (message->header_length > kMaxHeaderBytes) {
    counters_.rx_long_header.add();
    return false;
  }
  Peer* peer = port.find(message->source);
  if (peer == nullptr || peer->failed || !peer->route->brings(completion.qp_num)) {
    counters_.rx_unknown_source.add();
    return false;
  }
  peer->heard_ns = now_ns_;
  switch (message->type) {
    case MessageHeader::Type::eager:
      return accept_eager(*peer, send, buffer);
    case MessageHeader::Type::rendezvous:
      announce(*peer, *message, messages.behind());
      return false;
    case MessageHeader::Type::reply:
      counters_.rx_reply_messages.add();
      on_replies(*peer, *message, messages.behind());
      return false;
  }
  return false;
}

bool Adapter::accept_eager(Peer& peer, std::span<const std::byte> send, std::uint32_t buffer) {
  Messages messages(send);
  std::size_t count = 0;
  std::size_t replies = 0;
  for (; const auto message = messages.next(); ++count) {
    if (message->header_length > kMaxHeaderBytes) {
      counters_.rx_long_header.add();
      return false;
    }
    if (message->source != peer.id) {
      counters_.rx_unknown_source.add();
      return false;
    }
    if (message->wants_reply) ++replies;
  }
  if (messages.malformed()) {
    counters_.rx_malformed.add();
    return false;
  }
  counters_.rx_eager.add(count);
  counters_.rx_shared.add(count - 1);
  if (peer.owed + replies > Peer::kMaxUnanswered) {
    counters_.rx_over_limit.add();
    return false;
  }
  peer.owed += replies;
  peer.port.lengths[buffer] = replies > 0 ? static_cast<std::uint32_t>(send.size()) : 0;
  return peer.port.arrive({.source = peer.id,
                           .buffer = buffer,
                           .length = static_cast<std::uint32_t>(send.size()),
                           .bytes = send.data()});
}

void Adapter::announce(Peer& peer, const MessageHeader& message, const std::byte* header) {
  counters_.rx_rendezvous.add();
  if (peer.owed == Peer::kMaxUnanswered || peer.to_read.full()) {
    counters_.rx_over_limit.add();
    return;
  }
  ++peer.owed;
  if (message.length > peer.port.lane.config.max_message_bytes) {
    counters_.rx_too_long.add();
    owe(peer, {.tag = message.tag, .status = Status::refused});
    return;
  }
  Announced announced{.message = message};
  std::memcpy(announced.header.data(), header, message.header_length);
  peer.to_read.push(announced);
  if (!peer.reading_hook.is_linked()) peer.port.reading.push_back(peer);
}

void Adapter::on_replies(Peer& peer, const MessageHeader& message, const std::byte* entries) {
  for (std::uint32_t i = 0; i < message.length; ++i, entries += Reply::kSize) {
    const Reply reply =
        Reply::parse(std::span<const std::byte, Reply::kSize>(entries, Reply::kSize));
    Transfer* transfer = transfers_->find(reply.tag);
    if (transfer == nullptr || transfer->peer != &peer || !transfer->awaits_reply) {
      counters_.stale_replies.add();
      continue;
    }
    counters_.rx_replies.add();
    stop_awaiting(*transfer);
    transfer->status = reply.status;
    settle(*transfer);
  }
  drain_later(peer);
}

void Adapter::read_payloads(LanePort& port) {
  LanePort::ReadingList full;
  while (!port.reading.empty() && !port.rendezvous_free.empty()) {
    Peer& peer = port.reading.front();
    const std::uint32_t index = port.rendezvous_free.back();
    RendezvousBuffer& buffer = port.rendezvous[index];
    const MessageHeader& message = peer.to_read.front().message;
    const roce::Sge to{reinterpret_cast<std::uintptr_t>(buffer.bytes), message.length,
                       port.rendezvous_key};
    const Posted posted = peer.route->post(
        {.wr_id = CompletionId::of(CompletionId::payload, port.index << 16 | index),
         .sg_list = {&to, message.length > 0 ? 1u : 0u},
         .opcode = roce::WrOpcode::rdma_read,
         .send_flags = roce::kSendSignaled,
         .remote_addr = message.addr,
         .rkey = message.rkey});
    port.reading.pop_front();
    if (posted == Posted::full || posted == Posted::waits) {
      full.push_back(peer);  // the next turn tries again; others do not wait for it
      continue;
    }
    if (posted != Posted::yes) {
      fail_peer(peer);
      continue;
    }
    port.rendezvous_free.pop_back();
    buffer.peer = &peer;
    buffer.announced = peer.to_read.front();
    peer.to_read.pop();
    if (!peer.to_read.empty()) port.reading.push_back(peer);
  }
  port.reading.splice(port.reading.begin(), full);
}

void Adapter::on_payload(LanePort& port, std::uint32_t index, Status status) {
  RendezvousBuffer& buffer = port.rendezvous[index];
  Peer& peer = *buffer.peer;
  if (status != Status::ok) {
    port.rendezvous_free.push_back(index);
    counters_.rx_unreadable.add();
    owe(peer, {.tag = buffer.announced.message.tag, .status = status});
    if (status == Status::unreachable) fail_peer(peer);
    return;
  }
  const MessageHeader& message = buffer.announced.message;
  port.arrive({.kind = Arrival::Kind::rendezvous,
               .source = peer.id,
               .handler = message.handler,
               .header_length = message.header_length,
               .buffer = index,
               .length = message.length,
               .bytes = buffer.bytes,
               .header = buffer.announced.header.data()});
}

bool Adapter::take_handled(LanePort& port) {
  Handled handled;
  unsigned taken = 0;
  for (; taken < kHandledBurst && port.lane.handled.pop(handled); ++taken) {
    if (handled.rendezvous) {
      const RendezvousBuffer& buffer = port.rendezvous[handled.buffer];
      owe(*buffer.peer, {.tag = buffer.announced.message.tag, .status = status_of(handled, 0)});
      port.rendezvous_free.push_back(handled.buffer);
    } else {
      reply(port, handled);
      post_receive(port, handled.buffer);
    }
  }
  return taken > 0;
}

void Adapter::reply(LanePort& port, const Handled& handled) {
  Messages messages({port.buffer(handled.buffer), port.lengths[handled.buffer]});
  for (unsigned i = 0; const auto message = messages.next(); ++i) {
    if (!message->wants_reply) continue;
    owe(*port.find(message->source), {.tag = message->tag, .status = status_of(handled, i)});
  }
}

void Adapter::owe(Peer& peer, const Reply& reply) {
  if (peer.failed) return;
  peer.replies.push(reply);
  drain_later(peer);
}

void Adapter::probe(std::uint64_t now_ns) {
  // A peer that fails leaves the list.
  for (auto next = watched_.begin(); next != watched_.end();) probe(*next++);
  for (const auto& port : ports_) {
    if (!port->lane.watches.any()) continue;
    for (std::size_t i = 0; i < port->peers.size(); ++i) {
      const auto id = static_cast<EndpointId>(i);
      if (!port->lane.watches.contains(id)) continue;
      Peer* peer = port->find(id);
      if (peer == nullptr) {
        tell_failed(*port, id);
      } else if (!peer->failed) {
        if (peer->heard_ns == 0) peer->heard_ns = now_ns;  // nobody has asked so far
        probe(*peer);
      }
    }
  }
  next_probe_ns_ = now_ns + config_.probe_ns / 4;
}

void Adapter::probe(Peer& peer) {
  if (peer.probed || now_ns_ - peer.heard_ns < config_.probe_ns) return;
  // Nothing is written, and nobody is asked for it but the peer's transport.
  const Posted posted =
      peer.route->post({.wr_id = CompletionId::of(CompletionId::probe, peer.index),
                        .opcode = roce::WrOpcode::rdma_write,
                        .send_flags = roce::kSendSignaled});
  if (posted == Posted::yes) {
    peer.probed = true;
    counters_.tx_probes.add();
  } else if (posted == Posted::broken) {
    fail_peer(peer);
  }
}

}  // namespace rockhopper::ami
