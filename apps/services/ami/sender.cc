// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/sender.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <span>
#include <utility>

#include "apps/services/ami/completion_id.h"

namespace rockhopper::ami {
namespace {

/// A short SEND, of which nobody is told unless it fails.
Posted post_untracked(Peer& peer, std::span<const std::byte> bytes) {
  const roce::Sge sge = inline_sge(bytes.data(), bytes.size());
  return peer.route->post({.wr_id = CompletionId::of(CompletionId::untracked, peer.index),
                           .sg_list = {&sge, 1},
                           .opcode = roce::WrOpcode::send,
                           .send_flags = roce::kSendInline});
}

/// Bytes of a transfer: the message's header, and what was with the slot.
std::size_t stride_of(const AdapterConfig& config) {
  return MessageHeader::kSize + config.immediate_bytes;
}

}  // namespace

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

Sender::Sender(AdapterParts& parts)
    : parts_(parts),
      bytes_(parts.config.transfers * stride_of(parts.config)),
      transfers_(parts.config.transfers, bytes_.data(), stride_of(parts.config)),
      signs_(parts) {}

Expected<void> Sender::set_up(roce::Engine& engine, roce::ProtectionDomain pd) {
  ROCKHOPPER_TRY(region_,
                 roce::own(engine, engine.register_memory(pd, bytes_.data(), bytes_.size(), 0)));
  return {};
}

Sender::~Sender() {
  for (const auto& peer : parts_.peers) {
    peer->waiting.clear();
    peer->awaiting.clear();
  }
  to_drain_.clear();
}

// From the FIFO.

/// Returns null if the lane has as many as are left for all others, or all are taken.
Transfer* Sender::take_transfer(LanePort& port) {
  // A lane whose peers do not answer must not take what the others need.
  if (port.transfers > 0 && port.transfers >= transfers_.free()) return nullptr;
  Transfer* transfer = transfers_.take();
  if (transfer != nullptr) ++port.transfers;
  return transfer;
}

bool Sender::take_descriptors(LanePort& port) {
  InjectionFifo<>& fifo = port.lane.fifo;
  unsigned taken = 0;
  for (; taken < parts_.config.burst; ++taken) {
    const Descriptor* descriptor = fifo.front();
    if (descriptor == nullptr) break;
    if (descriptor->type == Descriptor::Type::completion) {
      parts_.counters.completion_descriptors.add();
      link_completion(port);
    } else if (!start(port, *descriptor)) {
      break;
    }
    parts_.counters.descriptors.add();
    fifo.pop();
  }
  flush_batch();
  return taken > 0;
}

/// Returns false if it has to stay in the FIFO.
bool Sender::start(LanePort& port, const Descriptor& descriptor) {
  Peer* peer = port.find(descriptor.endpoint);
  if (port.closed || peer == nullptr || peer->failed) {
    end_at_once(port, port.closed ? Status::canceled : Status::unreachable);
    return true;
  }
  const Instruction instruction(descriptor, port.lane.config);
  const bool told = port.lane.config.fifo.completion == CompletionMode::counter ||
                    (descriptor.flags & Descriptor::kCallback) != 0;
  // The caller's buffer has been free all along.
  const bool at_once = told && descriptor.level == Level::local && instruction.is_immediate();
  const bool reports = told && !at_once;
  const bool in_turn = peer->waiting.empty() && peer->replies.empty();
  if (in_turn && !reports && instruction.parts() == 1 && !instruction.wants_reply() &&
      !instruction.needs_bytes()) {
    const Posted posted = start_untracked(*peer, instruction);
    if (posted == Posted::invalid || posted == Posted::broken) {
      end_at_once(port, posted == Posted::broken ? Status::unreachable : Status::invalid);
      return true;
    }
    if (posted == Posted::yes) {
      if (at_once) end_at_once(port, Status::ok);
      return true;
    }
  }
  return start_tracked(*peer, instruction, reports, at_once, in_turn);
}

/// Remembers it. Returns false if there is no room for that.
bool Sender::start_tracked(Peer& peer, const Instruction& instruction, bool reports, bool at_once,
                           bool in_turn) {
  LanePort& port = peer.port;
  Transfer* transfer = take_transfer(port);
  if (transfer == nullptr) return false;
  if (!in_turn) parts_.counters.transfers_waited.add();
  transfer->peer = &peer;
  transfer->descriptor = instruction.descriptor();
  std::memcpy(transfer->bytes + MessageHeader::kSize, port.lane.fifo.immediate(),
              instruction.immediate_bytes());
  transfer->reports = reports;
  const bool counts = port.lane.config.fifo.completion == CompletionMode::counter;
  port.last = reports && !counts ? transfer : nullptr;
  port.last_status = Status::ok;
  if (counts) {
    transfer->place = port.lane.fifo.front_place();
    transfer->placed = true;
  }
  if (at_once) end_at_once(port, Status::ok);
  peer.waiting.push_back(*transfer);
  // With those that come behind it.
  if (in_turn) drain_later(peer);
  return true;
}

/// Posts it without a Transfer, or puts it into the batch.
Posted Sender::start_untracked(Peer& peer, const Instruction& instruction) {
  const LanePort& port = peer.port;
  const bool batched = instruction.goes_in_batch();
  if (!batched || batch_peer_ != &peer ||
      !batch_.has_room(instruction.message_bytes(), port.buffer_bytes)) {
    flush_batch();
    if (peer.failed) return Posted::broken;
  }
  if (!batched) {
    const Posted posted = post_part(peer, instruction, 0, port.lane.fifo.immediate(), nullptr);
    (void)takes(peer, posted);
    return posted;
  }
  if (batch_.empty()) {
    const Posted ready = peer.route->ready();
    if (!takes(peer, ready)) return ready;
    batch_peer_ = &peer;
  }
  batch_.add(instruction.header(0), {port.lane.fifo.immediate(), instruction.immediate_bytes()});
  return Posted::yes;
}

/// Posts what take_descriptors() has put into the batch.
void Sender::flush_batch() {
  if (batch_.empty()) return;
  // It was ready, and nothing else has been posted since.
  const Posted posted = post_batch(*batch_peer_, nullptr);
  assert(posted == Posted::yes);
  if (!takes(*batch_peer_, posted)) parts_.counters.transfers_failed.add(batch_.count());
  batch_.clear();
}

/// Posts the batch as one SEND, of whose completion `first` is told; null: nobody is.
Posted Sender::post_batch(Peer& peer, const Transfer* first) {
  const roce::Sge sge = inline_sge(batch_.bytes().data(), batch_.bytes().size());
  roce::SendWr wr{.wr_id = CompletionId::of(CompletionId::untracked, peer.index),
                  .sg_list = {&sge, 1},
                  .opcode = roce::WrOpcode::send,
                  .send_flags = roce::kSendInline};
  if (first != nullptr) {
    wr.wr_id = CompletionId::of(CompletionId::transfer, first->tag());
    wr.send_flags |= roce::kSendSignaled;
  }
  const Posted posted = peer.route->post(wr);
  if (posted == Posted::yes) {
    parts_.counters.tx_eager.add(batch_.count());
    parts_.counters.tx_shared.add(batch_.count() - 1);
  }
  return posted;
}

void Sender::end_at_once(LanePort& port, Status status) {
  if (status != Status::ok) parts_.counters.transfers_failed.add();
  port.last = nullptr;
  port.last_status = status;
  if (port.lane.config.fifo.completion == CompletionMode::counter) {
    port.lane.fifo.complete(port.lane.fifo.front_place(), status);
  }
}

/// The completion descriptor behind a transfer names the place that is completed.
void Sender::link_completion(LanePort& port) {
  const std::uint64_t place = port.lane.fifo.front_place();
  if (port.last == nullptr) {
    port.lane.fifo.complete(place, port.last_status);
    return;
  }
  Transfer& transfer = *std::exchange(port.last, nullptr);
  transfer.place = place;
  transfer.placed = true;
  settle(transfer);
}

// To the transport.

Posted Sender::post_part(Peer& peer, const Instruction& instruction, unsigned part,
                         const std::byte* immediate, Transfer* transfer) {
  const PartRequest request(instruction, part, immediate, transfer, peer.index, region_.key());
  const Posted posted = peer.route->post(request.wr());
  if (posted == Posted::yes && instruction.is_message()) {
    (instruction.is_rendezvous() ? parts_.counters.tx_rendezvous : parts_.counters.tx_eager).add();
  }
  return posted;
}

/// Returns false if its peer takes no more for now.
bool Sender::post(Transfer& transfer) {
  Peer& peer = *transfer.peer;
  const Instruction instruction(transfer.descriptor, peer.port.lane.config);
  while (transfer.parts_posted < instruction.parts() && transfer.status == Status::ok) {
    const Posted posted = post_part(peer, instruction, transfer.parts_posted,
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

/// All of it has been posted.
void Sender::on_posted(Transfer& transfer) {
  Peer& peer = *transfer.peer;
  peer.waiting.erase(peer.waiting.iterator_to(transfer));
  transfer.posted = true;
  const Instruction instruction(transfer.descriptor, peer.port.lane.config);
  if (transfer.status == Status::ok && instruction.wants_reply()) await_reply(transfer);
  settle(transfer);
}

/// Posts the first transfers that wait, as many as go in one SEND. Returns false if the peer takes
/// no more for now.
bool Sender::post_messages(Peer& peer) {
  assert(batch_.empty());
  std::size_t replies = 0;
  for (const Transfer& transfer : peer.waiting) {
    const Instruction instruction(transfer.descriptor, peer.port.lane.config);
    if (!instruction.goes_in_batch() ||
        !batch_.has_room(instruction.message_bytes(), peer.port.buffer_bytes)) {
      break;
    }
    if (instruction.wants_reply()) {
      if (!peer.unanswered.has_room(false, replies)) break;
      ++replies;
    }
    batch_.add(instruction.header(transfer.tag()),
               {transfer.bytes + MessageHeader::kSize, instruction.immediate_bytes()});
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

void Sender::drain(Peer& peer) {
  if (peer.failed || !post_replies(peer)) return;
  while (!peer.waiting.empty()) {
    Transfer& next = peer.waiting.front();
    const Instruction instruction(next.descriptor, peer.port.lane.config);
    if (instruction.wants_reply() && !peer.unanswered.has_room(instruction.is_rendezvous())) {
      return;  // a reply brings us back
    }
    if (instruction.goes_in_batch() ? !post_messages(peer) : !post(next)) return;
  }
}

void Sender::drain_later(Peer& peer) {
  if (!peer.drain_hook.is_linked()) to_drain_.push_back(peer);
}

void Sender::drain_all() {
  PeerList<&Peer::drain_hook> to_drain;
  to_drain.swap(to_drain_);
  while (!to_drain.empty()) {
    Peer& peer = to_drain.front();
    to_drain.pop_front();
    drain(peer);
  }
}

/// Returns true if it has been posted. Else sees to it that the peer is tried again, or fails it.
bool Sender::takes(Peer& peer, Posted posted) {
  if (posted == Posted::yes) return true;
  if (posted == Posted::full) drain_later(peer);
  if (posted == Posted::broken) fail(peer);
  return false;
}

// Replies.

void Sender::owe(Peer& peer, const Reply& reply) {
  if (peer.failed) return;
  peer.replies.push(reply);
  drain_later(peer);
}

/// Returns false if the peer takes no more for now.
bool Sender::post_replies(Peer& peer) {
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
    const Posted posted =
        post_untracked(peer, {bytes.data(), MessageHeader::kSize + count * Reply::kSize});
    assert(posted != Posted::invalid);
    if (!takes(peer, posted)) return false;
    parts_.counters.tx_replies.add();
    peer.replies.pop(count);
  }
  return true;
}

void Sender::await_reply(Transfer& transfer) {
  Peer& peer = *transfer.peer;
  const Instruction instruction(transfer.descriptor, peer.port.lane.config);
  transfer.awaits_reply = true;
  peer.awaiting.push_back(transfer);
  peer.unanswered.on_posted(instruction.is_rendezvous());
  signs_.watch(peer);
}

void Sender::stop_awaiting(Transfer& transfer) {
  if (!transfer.awaits_reply) return;
  Peer& peer = *transfer.peer;
  const Instruction instruction(transfer.descriptor, peer.port.lane.config);
  transfer.awaits_reply = false;
  peer.awaiting.erase(peer.awaiting.iterator_to(transfer));
  peer.unanswered.on_ended(instruction.is_rendezvous());
  if (peer.awaiting.empty()) signs_.forget(peer);
}

bool Sender::on_reply(Peer& peer, const Reply& reply) {
  Transfer* transfer = transfers_.find(reply.tag);
  if (transfer == nullptr || transfer->peer != &peer || !transfer->awaits_reply) return false;
  stop_awaiting(*transfer);
  transfer->status = reply.status;
  settle(*transfer);
  return true;
}

// What becomes of transfers.

void Sender::on_sent(std::uint32_t tag, roce::WcStatus status) {
  // They stay until all their parts are complete.
  Transfer* transfer = transfers_.find(tag);
  const Status result = status_of(status, *transfer->peer);
  while (transfer != nullptr) {
    on_part(*std::exchange(transfer, transfer->behind), result);
  }
}

void Sender::on_part(Transfer& transfer, Status status) {
  Peer& peer = *transfer.peer;
  --transfer.parts_out;
  if (status != Status::ok && transfer.status == Status::ok) {
    transfer.status = status;
    stop_awaiting(transfer);
  }
  settle(transfer);
  if (status == Status::unreachable) fail(peer);
}

/// Tells of it if it has ended, and forgets it.
void Sender::settle(Transfer& transfer) {
  if (!transfer.ended() || (transfer.reports && !transfer.placed)) return;
  if (transfer.status != Status::ok) parts_.counters.transfers_failed.add();
  if (transfer.reports) transfer.peer->port.lane.fifo.complete(transfer.place, transfer.status);
  --transfer.peer->port.transfers;
  transfers_.give_back(transfer);
}

void Sender::end_all(Peer& peer, Status status) {
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

void Sender::fail(Peer& peer) {
  if (std::exchange(peer.failed, true)) return;
  parts_.counters.peers_failed.add();
  peer.replies.forsake();
  peer.to_read.clear();
  if (peer.reading_hook.is_linked()) peer.port.reading.erase(peer.port.reading.iterator_to(peer));
  if (peer.drain_hook.is_linked()) to_drain_.erase(to_drain_.iterator_to(peer));
  end_all(peer, Status::unreachable);
  peer.port.tell_failed(peer.id);
}

}  // namespace rockhopper::ami
