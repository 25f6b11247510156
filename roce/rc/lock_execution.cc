// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/lock_execution.h"

#include <array>
#include <cassert>
#include <cstddef>

#include "roce/payload.h"
#include "roce/rc/execution.h"
#include "roce/wire/lketh.h"

namespace rockhopper::roce::rc {

using wire::Lketh;
using wire::LockCause;
using wire::NakCode;
using wire::Operation;

namespace {

/// Returns the fixed-size structure at `offset` of a payload that holds it.
template <typename Structure>
Structure read_at(const MbufBytes& payload, std::uint32_t offset) {
  std::array<std::uint8_t, Structure::kSize> bytes;
  copy_from_mbuf({payload.packet, payload.offset + offset, Structure::kSize},
                 reinterpret_cast<std::byte*>(bytes.data()));
  return Structure::parse(bytes);
}

/// The payload is as long as the subtype says.
bool has_right_payload(std::uint8_t subtype, std::uint32_t length) {
  switch (subtype) {
    case Lketh::kAcquireSeveral:
      return length > 0 && length % wire::LockWord::kSize == 0 &&
             length / wire::LockWord::kSize < lock::kMaxClaims;
    case Lketh::kAcquireForeign:
    case Lketh::kReleaseForeign:
      return length == wire::LockOperation::kSize;
    default:
      return length == 0;
  }
}

}  // namespace

std::uint32_t Responder::LockExecution::mtu() const { return bytes(qp_.attributes().path_mtu); }

void Responder::LockExecution::execute(const RxPacket& packet) {
  const Lketh& request = packet.headers.lketh;
  const bool known =
      request.is_acquire() || request.is_release() || request.subtype == Lketh::kCancel;
  if (!known || responder_.scope_ == nullptr ||
      !has_right_payload(request.subtype, packet.payload.length) ||
      (qp_.attributes().qp_access_flags & kAccessRemoteAtomic) == 0 ||
      !responder_.resources_.has_place()) {
    responder_.refuse(NakCode::invalid_request, packet);
  } else if (request.is_acquire()) {
    acquire(packet);
  } else if (request.is_release()) {
    release(packet);
  } else {
    cancel(packet);
  }
}

void Responder::LockExecution::acquire(const RxPacket& packet) {
  const Lketh& request = packet.headers.lketh;
  const bool again = scope().has_asked_for(request);
  scope().prepare(request);
  if (const auto refusal = collect_claims(packet)) {
    responder_.refuse(*refusal, packet);
    return;
  }
  if (!again) {
    qp_.engine().counters().rx_lock_requests.add();
    scope().begin(request, responder_.expected_psn_);
  }
  if (request.is_stored()) {
    if (request.scope_psns >= HeldPackets::kWindow) {
      decide(LockCause::too_big);
    } else if (!scope().gather()) {
      responder_.refuse_for_now(packet);
    } else {
      look_when_gathered();  // the rest may be parked already
    }
    return;
  }
  if (const auto cause = scope().look(again)) {
    decide(*cause);
  } else if ((request.flags & Lketh::kResend) != 0 || !scope().wait()) {
    scope().ask_again();  // else there is no room to wait now
    responder_.refuse_for_now(packet);
  }
  schedule_sign();
}

/// Collects what the request names, each word checked as that of an atomic (LK-31).
std::optional<NakCode> Responder::LockExecution::collect_claims(const RxPacket& packet) {
  const Lketh& request = packet.headers.lketh;
  lock::Claim claim{.leased = true, .owner = static_cast<std::uint16_t>(request.owner)};
  if (request.subtype == Lketh::kAcquireShared) {
    claim.mode = lock::Mode::shared;
  } else if (request.subtype == Lketh::kAcquireForeign) {
    const bool add = (request.flags & Lketh::kAdd) != 0;
    claim.mode = add ? lock::Mode::foreign_add : lock::Mode::foreign_swap;
    claim.operation = read_at<wire::LockOperation>(packet.payload, 0);
  }
  std::optional<NakCode> refusal = add_claim(claim, request.rkey, request.va);
  if (request.subtype == Lketh::kAcquireSeveral) {
    for (std::uint32_t offset = 0; !refusal && offset < packet.payload.length;
         offset += wire::LockWord::kSize) {
      const auto word = read_at<wire::LockWord>(packet.payload, offset);
      claim.mode = word.shared ? lock::Mode::shared : lock::Mode::exclusive;
      refusal = add_claim(claim, word.rkey, word.va);
    }
  }
  return refusal;
}

std::optional<NakCode> Responder::LockExecution::add_claim(lock::Claim claim, std::uint32_t rkey,
                                                           std::uint64_t va) {
  std::byte* word = nullptr;
  if (const auto refusal = responder_.find_word(MemoryKey{rkey}, va, kAccessRemoteAtomic, word)) {
    return refusal;
  }
  claim.word = reinterpret_cast<std::uint64_t*>(word);
  claim.region = qp_.engine().locks()->table.find(claim.word);
  if (claim.region == nullptr) return NakCode::remote_access_error;
  return scope().add(claim) ? std::nullopt : std::optional(NakCode::invalid_request);
}

void Responder::LockExecution::decide(LockCause cause) {
  put(scope().decide(cause));
  resume();
}

void Responder::LockExecution::release(const RxPacket& packet) {
  const Lketh& request = packet.headers.lketh;
  wire::LockOperation operation{};
  if (request.subtype == Lketh::kReleaseForeign) {
    operation = read_at<wire::LockOperation>(packet.payload, 0);
  }
  put(scope().release(request, operation));
}

void Responder::LockExecution::cancel(const RxPacket& packet) {
  put(scope().answer_to_cancel(packet.headers.lketh.scope_id));
}

void Responder::LockExecution::flush(const RxPacket& packet) {
  const Operation operation = packet.headers.opcode->operation;
  if (operation == Operation::rdma_write) {
    if (packet.headers.opcode->starts()) responder_.message_.begin_write(packet.headers.reth);
    responder_.finish_packet(packet);
    return;
  }
  if (!responder_.resources_.has_place()) {
    responder_.refuse(NakCode::invalid_request, packet);
    return;
  }
  if (operation == Operation::lock_request) {
    put(scope().finish());
  } else {
    put(scope().flushed(), psns_of(packet.headers, mtu()));
  }
}

/// Puts an answer into the ring of what is owed, in the place of the request at the expected PSN.
void Responder::LockExecution::put(const TargetScope::Answer& answer, std::uint32_t psn_count) {
  responder_.finish_with({.first_psn = responder_.expected_psn_,
                          .psn_count = psn_count,
                          .msn = responder_.next_msn(),
                          .scope_id = answer.scope_id,
                          .kind = Kind::lock,
                          .lock_status = answer.status,
                          .lock_cause = answer.cause,
                          .va = answer.value,
                          .original = answer.previous});
}

void Responder::LockExecution::park(const RxPacket& packet) {
  const wire::Headers& headers = packet.headers;
  if (!scope().parked().hold(packet, mtu())) {
    responder_.drop(DropReason::lock_no_room, packet);
    return;
  }
  if (headers.opcode->operation == Operation::lock_request &&
      scope().is_canceled_by(headers.lketh)) {
    scope().cancel();
    decide(LockCause::canceled);
    return;
  }
  look_when_gathered();
}

void Responder::LockExecution::look_when_gathered() {
  if (!scope().is_gathered()) return;
  if (const auto cause = scope().end_gathering()) decide(*cause);
  schedule_sign();
}

/// The peer has not heard of its acquire for too long.
void Responder::LockExecution::on_parked_again(const RxPacket& packet) {
  qp_.engine().counters().duplicate_request.add();
  responder_.drop(DropReason::duplicate_request, packet);
  if (scope().state() == TargetScope::State::waiting) {
    scope().owe_sign();
    schedule_sign();
  }
}

void Responder::LockExecution::schedule_sign() {
  if (scope().owes_sign()) qp_.schedule();
}

/// Executes what was parked, up to the next acquire that waits.
void Responder::LockExecution::resume() {
  ParkedRequests& parked = scope().parked();
  if (parked.is_resuming()) return;
  parked.begin_resuming();
  while (!scope().stalls() && parked.psns() > 0) {
    const wire::Psn turn = responder_.expected_psn_;
    const bool there = parked.deliver(
        turn, mtu(), [&](const RxPacket& packet) { Execution::take(responder_, packet); });
    if (!there || (responder_.expected_psn_ == turn && !scope().stalls())) {
      parked.drop();  // it was refused, and so is what is behind it
    }
  }
  parked.end_resuming();
  if (scope().stalls()) return;
  parked.drop();
  const bool dropped = parked.has_dropped();
  parked.forget_dropped();
  if (dropped && takes_requests(qp_.state()) && !responder_.owed_.is_rnr_outstanding()) {
    responder_.ask_for_missing();
  }
}

void Responder::LockExecution::on_timer(std::uint64_t now_ns) {
  if (const auto cause = scope().on_timer(now_ns)) decide(*cause);
  schedule_sign();
}

}  // namespace rockhopper::roce::rc
