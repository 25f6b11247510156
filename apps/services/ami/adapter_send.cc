// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// From the injection FIFOs to the transport.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/completion_id.h"
#include "apps/services/ami/lane_port.h"

namespace rockhopper::ami {
namespace {

using roce::SendWr;
using roce::Sge;
using roce::WrOpcode;

/// Bytes that are with the slot.
std::size_t immediate_bytes(const Descriptor& descriptor) {
  return descriptor.header_length +
         ((descriptor.flags & Descriptor::kImmediate) != 0 ? descriptor.length : 0);
}

bool is_immediate(const Descriptor& descriptor) {
  return (descriptor.flags & Descriptor::kImmediate) != 0;
}

unsigned parts_of(const Descriptor& descriptor) {
  return descriptor.operation == Operation::put_notify ? 2 : 1;
}

bool is_rendezvous(const LanePort& port, const Descriptor& descriptor) {
  return descriptor.operation == Operation::message &&
         descriptor.header_length + descriptor.length > port.lane.config.eager_bytes;
}

bool wants_reply(const LanePort& port, const Descriptor& descriptor) {
  return descriptor.operation == Operation::message &&
         (descriptor.level == Level::handled || is_rendezvous(port, descriptor));
}

/// The message's header has to stay until the peer has it.
bool needs_bytes(const LanePort& port, const Descriptor& descriptor) {
  return descriptor.operation == Operation::message && !is_immediate(descriptor) &&
         descriptor.length > 0 && !is_rendezvous(port, descriptor);
}

/// It can share a SEND, into which it fits: it is as short as what a slot takes.
bool goes_in_batch(const LanePort& port, const Descriptor& descriptor) {
  return descriptor.operation == Operation::message &&
         (is_immediate(descriptor) || descriptor.length == 0) && !is_rendezvous(port, descriptor);
}

std::size_t message_size(const Descriptor& descriptor) {
  return MessageHeader::kSize + descriptor.header_length + descriptor.length;
}

Sge inline_sge(const void* bytes, std::size_t length) {
  return {reinterpret_cast<std::uintptr_t>(bytes), static_cast<std::uint32_t>(length), {}};
}

}  // namespace

Transfer* Adapter::take_transfer(LanePort& port) {
  // A lane whose peers do not answer must not take what the others need.
  if (port.transfers > 0 && port.transfers >= transfers_->free()) return nullptr;
  Transfer* transfer = transfers_->take();
  if (transfer != nullptr) ++port.transfers;
  return transfer;
}

bool Adapter::take_descriptors(LanePort& port) {
  InjectionFifo<>& fifo = port.lane.fifo;
  unsigned taken = 0;
  for (; taken < config_.burst; ++taken) {
    const Descriptor* descriptor = fifo.front();
    if (descriptor == nullptr) break;
    if (descriptor->type == Descriptor::Type::completion) {
      counters_.completion_descriptors.add();
      link_completion(port);
    } else if (!start(port, *descriptor)) {
      break;
    }
    counters_.descriptors.add();
    fifo.pop();
  }
  flush_batch();
  return taken > 0;
}

bool Adapter::start(LanePort& port, const Descriptor& descriptor) {
  Peer* peer = port.find(descriptor.endpoint);
  if (port.closed || peer == nullptr || peer->failed) {
    end_at_once(port, port.closed ? Status::canceled : Status::unreachable);
    return true;
  }
  const bool counts = port.lane.config.fifo.completion == CompletionMode::counter;
  const bool told = counts || (descriptor.flags & Descriptor::kCallback) != 0;
  // The caller's buffer has been free all along.
  const bool at_once = told && descriptor.level == Level::local && is_immediate(descriptor);
  const bool reports = told && !at_once;
  const std::byte* immediate = port.lane.fifo.immediate();
  const bool in_turn = peer->waiting.empty() && peer->replies.empty();
  if (in_turn && !reports && parts_of(descriptor) == 1 && !wants_reply(port, descriptor) &&
      !needs_bytes(port, descriptor)) {
    const Posted posted = start_untracked(*peer, descriptor);
    if (posted == Posted::invalid || posted == Posted::broken) {
      end_at_once(port, posted == Posted::broken ? Status::unreachable : Status::invalid);
      return true;
    }
    if (posted == Posted::yes) {
      if (at_once) end_at_once(port, Status::ok);
      return true;
    }
  }
  Transfer* transfer = take_transfer(port);
  if (transfer == nullptr) return false;
  if (!in_turn) counters_.transfers_waited.add();
  transfer->peer = peer;
  transfer->descriptor = descriptor;
  std::memcpy(transfer->bytes + MessageHeader::kSize, immediate, immediate_bytes(descriptor));
  transfer->reports = reports;
  port.last = reports && !counts ? transfer : nullptr;
  port.last_status = Status::ok;
  if (counts) {
    transfer->place = port.lane.fifo.front_place();
    transfer->placed = true;
  }
  if (at_once) end_at_once(port, Status::ok);
  peer->waiting.push_back(*transfer);
  // With those that come behind it.
  if (in_turn) drain_later(*peer);
  return true;
}

Posted Adapter::start_untracked(Peer& peer, const Descriptor& descriptor) {
  const LanePort& port = peer.port;
  const bool batched = goes_in_batch(port, descriptor);
  if (!batched || batch_peer_ != &peer ||
      !batch_.has_room(message_size(descriptor), port.buffer_bytes)) {
    flush_batch();
    if (peer.failed) return Posted::broken;
  }
  if (!batched) {
    const Posted posted = post_part(peer, descriptor, 0, port.lane.fifo.immediate(), nullptr);
    static_cast<void>(takes(peer, posted));
    return posted;
  }
  if (batch_.empty()) {
    const Posted ready = peer.route->ready();
    if (!takes(peer, ready)) return ready;
    batch_peer_ = &peer;
  }
  batch_.add(header_of(peer, descriptor, nullptr),
             {port.lane.fifo.immediate(), immediate_bytes(descriptor)});
  return Posted::yes;
}

void Adapter::flush_batch() {
  if (batch_.empty()) return;
  // It was ready, and nothing else has been posted since.
  const Posted posted = post_batch(*batch_peer_, nullptr);
  assert(posted == Posted::yes);
  if (!takes(*batch_peer_, posted)) counters_.transfers_failed.add(batch_.count());
  batch_.clear();
}

Posted Adapter::post_batch(Peer& peer, const Transfer* first) {
  const Sge sge = inline_sge(batch_.bytes().data(), batch_.bytes().size());
  SendWr wr{.wr_id = CompletionId::of(CompletionId::untracked, peer.index),
            .sg_list = {&sge, 1},
            .opcode = WrOpcode::send,
            .send_flags = roce::kSendInline};
  if (first != nullptr) {
    wr.wr_id = CompletionId::of(CompletionId::transfer, first->tag());
    wr.send_flags |= roce::kSendSignaled;
  }
  const Posted posted = peer.route->post(wr);
  if (posted == Posted::yes) {
    counters_.tx_eager.add(batch_.count());
    counters_.tx_shared.add(batch_.count() - 1);
  }
  return posted;
}

void Adapter::end_at_once(LanePort& port, Status status) {
  if (status != Status::ok) counters_.transfers_failed.add();
  port.last = nullptr;
  port.last_status = status;
  if (port.lane.config.fifo.completion == CompletionMode::counter) {
    port.lane.fifo.complete(port.lane.fifo.front_place(), status);
  }
}

void Adapter::link_completion(LanePort& port) {
  const std::uint64_t place = port.lane.fifo.front_place();
  if (port.last == nullptr) {
    port.lane.fifo.complete(place, port.last_status);
    return;
  }
  Transfer& transfer = *port.last;
  port.last = nullptr;
  transfer.place = place;
  transfer.placed = true;
  settle(transfer);
}

MessageHeader Adapter::header_of(const Peer& peer, const Descriptor& descriptor,
                                 const Transfer* transfer) {
  const bool rendezvous = is_rendezvous(peer.port, descriptor);
  return {.type = rendezvous ? MessageHeader::Type::rendezvous : MessageHeader::Type::eager,
          .wants_reply = wants_reply(peer.port, descriptor),
          .source = peer.port.lane.config.self,
          .handler = descriptor.handler,
          .header_length = descriptor.header_length,
          .tag = transfer != nullptr ? transfer->tag() : 0,
          .length = descriptor.length,
          .rkey = rendezvous ? descriptor.lkey : roce::MemoryKey{},
          .addr = rendezvous ? descriptor.local_addr : 0};
}

Posted Adapter::post_part(Peer& peer, const Descriptor& descriptor, unsigned part,
                          const std::byte* immediate, Transfer* transfer) {
  SendWr wr;
  wr.wr_id = transfer != nullptr ? CompletionId::of(CompletionId::transfer, transfer->tag())
                                 : CompletionId::of(CompletionId::untracked, peer.index);
  if (transfer != nullptr) wr.send_flags = roce::kSendSignaled;
  wr.remote_addr = descriptor.remote_addr;
  wr.rkey = descriptor.rkey;
  std::array<Sge, 2> sges{};
  std::size_t count = 1;
  std::array<std::byte, MessageHeader::kSize> header;
  sges[0] = {descriptor.local_addr, descriptor.length, descriptor.lkey};
  switch (descriptor.operation) {
    case Operation::put:
    case Operation::put_notify:
      wr.opcode = WrOpcode::rdma_write;
      if (part == 1) {
        wr.opcode = WrOpcode::atomic_write;
        wr.remote_addr = descriptor.notify_addr;
        wr.send_flags |= roce::kSendInline;
        sges[0] = inline_sge(&descriptor.value, sizeof descriptor.value);
      } else if (is_immediate(descriptor)) {
        wr.send_flags |= roce::kSendInline;
        sges[0] = inline_sge(immediate, descriptor.length);
      }
      break;
    case Operation::get:
      wr.opcode = WrOpcode::rdma_read;
      break;
    case Operation::fetch_add:
      wr.opcode = WrOpcode::atomic_fetch_and_add;
      wr.compare_add = descriptor.value;
      break;
    case Operation::message: {
      wr.opcode = WrOpcode::send;
      const MessageHeader message = header_of(peer, descriptor, transfer);
      if (needs_bytes(peer.port, descriptor)) {
        message.emit(
            std::span<std::byte, MessageHeader::kSize>(transfer->bytes, MessageHeader::kSize));
        sges[1] = sges[0];
        sges[0] = inline_sge(transfer->bytes, MessageHeader::kSize + descriptor.header_length);
        sges[0].lkey = transfer_key_;
      } else {
        message.emit(header);
        sges[0] = inline_sge(header.data(), header.size());
        sges[1] = inline_sge(immediate, immediate_bytes(descriptor));
        wr.send_flags |= roce::kSendInline;
      }
      count = sges[1].length > 0 ? 2 : 1;
      break;
    }
  }
  if (count == 1 && sges[0].length == 0) count = 0;
  wr.sg_list = {sges.data(), count};
  const Posted posted = peer.route->post(wr);
  if (posted == Posted::yes && descriptor.operation == Operation::message) {
    (is_rendezvous(peer.port, descriptor) ? counters_.tx_rendezvous : counters_.tx_eager).add();
  }
  return posted;
}

bool Adapter::post(Transfer& transfer) {
  Peer& peer = *transfer.peer;
  const unsigned parts = parts_of(transfer.descriptor);
  while (transfer.parts_posted < parts && transfer.status == Status::ok) {
    const Posted posted = post_part(peer, transfer.descriptor, transfer.parts_posted,
                                    transfer.bytes + MessageHeader::kSize, &transfer);
    if (posted == Posted::invalid) {
      transfer.status = Status::invalid;
    } else if (takes(peer, posted)) {
      ++transfer.parts_posted;
      ++transfer.parts_out;
    } else {
      return false;  // with a peer that has failed, it is gone
    }
  }
  on_posted(transfer);
  return true;
}

void Adapter::on_posted(Transfer& transfer) {
  Peer& peer = *transfer.peer;
  peer.waiting.erase(peer.waiting.iterator_to(transfer));
  transfer.posted = true;
  if (transfer.status == Status::ok && wants_reply(peer.port, transfer.descriptor)) {
    await_reply(transfer);
  }
  settle(transfer);
}

bool Adapter::post_messages(Peer& peer) {
  assert(batch_.empty());
  std::size_t unanswered = peer.unanswered;
  for (const Transfer& transfer : peer.waiting) {
    const Descriptor& descriptor = transfer.descriptor;
    if (!goes_in_batch(peer.port, descriptor) ||
        !batch_.has_room(message_size(descriptor), peer.port.buffer_bytes)) {
      break;
    }
    if (wants_reply(peer.port, descriptor) && ++unanswered > Peer::kMaxUnanswered) break;
    batch_.add(header_of(peer, descriptor, &transfer),
               {transfer.bytes + MessageHeader::kSize, immediate_bytes(descriptor)});
  }
  const std::size_t count = batch_.count();
  const Posted posted = post_batch(peer, &peer.waiting.front());
  assert(posted != Posted::invalid);
  batch_.clear();
  if (!takes(peer, posted)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    Transfer& transfer = peer.waiting.front();
    transfer.parts_posted = transfer.parts_out = 1;
    on_posted(transfer);
    transfer.behind = i + 1 < count ? &peer.waiting.front() : nullptr;
  }
  return true;
}

void Adapter::await_reply(Transfer& transfer) {
  Peer& peer = *transfer.peer;
  transfer.awaits_reply = true;
  peer.awaiting.push_back(transfer);
  ++peer.unanswered;
  if (is_rendezvous(peer.port, transfer.descriptor)) ++peer.announced;
  if (peer.watched_hook.is_linked()) return;
  peer.heard_ns = now_ns_;
  if (!watches()) next_probe_ns_ = now_ns_ + config_.probe_ns;
  watched_.push_back(peer);
}

void Adapter::stop_awaiting(Transfer& transfer) {
  if (!transfer.awaits_reply) return;
  Peer& peer = *transfer.peer;
  transfer.awaits_reply = false;
  peer.awaiting.erase(peer.awaiting.iterator_to(transfer));
  --peer.unanswered;
  if (is_rendezvous(peer.port, transfer.descriptor)) --peer.announced;
  if (peer.awaiting.empty()) watched_.erase(watched_.iterator_to(peer));
}

void Adapter::drain(Peer& peer) {
  if (peer.failed || !post_replies(peer)) return;
  while (!peer.waiting.empty()) {
    Transfer& next = peer.waiting.front();
    if (wants_reply(peer.port, next.descriptor) &&
        (peer.unanswered >= Peer::kMaxUnanswered ||
         (is_rendezvous(peer.port, next.descriptor) && peer.announced >= Peer::kMaxAnnounced))) {
      return;  // a reply brings us back
    }
    if (goes_in_batch(peer.port, next.descriptor) ? !post_messages(peer) : !post(next)) return;
  }
}

void Adapter::drain_later(Peer& peer) {
  if (!peer.drain_hook.is_linked()) to_drain_.push_back(peer);
}

bool Adapter::post_replies(Peer& peer) {
  while (!peer.replies.empty()) {
    std::array<std::byte, MessageHeader::kSize + Reply::kMost * Reply::kSize> bytes;
    const std::size_t count = std::min(peer.replies.size(), Reply::kMost);
    const MessageHeader header{.type = MessageHeader::Type::reply,
                               .source = peer.port.lane.config.self,
                               .length = static_cast<std::uint32_t>(count)};
    header.emit(std::span<std::byte, MessageHeader::kSize>(bytes.data(), MessageHeader::kSize));
    for (std::size_t i = 0; i < count; ++i) {
      peer.replies.at(i).emit(std::span<std::byte, Reply::kSize>(
          bytes.data() + MessageHeader::kSize + i * Reply::kSize, Reply::kSize));
    }
    const Sge sge = inline_sge(bytes.data(), MessageHeader::kSize + count * Reply::kSize);
    const Posted posted =
        peer.route->post({.wr_id = CompletionId::of(CompletionId::untracked, peer.index),
                          .sg_list = {&sge, 1},
                          .opcode = WrOpcode::send,
                          .send_flags = roce::kSendInline});
    assert(posted != Posted::invalid);
    if (!takes(peer, posted)) return false;
    counters_.tx_replies.add();
    peer.replies.pop(count);
    peer.owed -= count;
  }
  return true;
}

bool Adapter::takes(Peer& peer, Posted posted) {
  if (posted == Posted::yes) return true;
  if (posted == Posted::full) drain_later(peer);
  if (posted == Posted::broken) fail_peer(peer);
  return false;
}

void Adapter::settle(Transfer& transfer) {
  if (!transfer.ended() || (transfer.reports && !transfer.placed)) return;
  if (transfer.status != Status::ok) counters_.transfers_failed.add();
  if (transfer.reports) transfer.peer->port.lane.fifo.complete(transfer.place, transfer.status);
  --transfer.peer->port.transfers;
  transfers_->give_back(transfer);
}

}  // namespace rockhopper::ami
