// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/uc/responder.h"

namespace rockhopper::roce::uc {

using wire::Operation;

void Responder::reset(wire::Psn first_psn) {
  expected_psn_ = first_psn;
  message_ = {};
}

void Responder::on_request(const RxPacket& packet) {
  if (!admit(packet)) return;
  expected_psn_ = packet.headers.bth.psn + 1;
  if (!packet.length_fits(bytes(qp_.attributes().path_mtu))) {
    drop(DropReason::bad_length, packet);
    return;
  }
  if (packet.headers.opcode->operation == Operation::send) {
    execute_send(packet);
  } else {
    execute_write(packet);
  }
}

/// PSN and order of opcodes: true if the packet begins a message or is the next of the one in
/// progress. Anything else ends the message in progress.
bool Responder::admit(const RxPacket& packet) {
  const wire::OpcodeInfo& opcode = *packet.headers.opcode;
  const std::int32_t ahead = distance(expected_psn_, packet.headers.bth.psn);
  EngineCounters& counters = qp_.engine().counters();
  if (ahead > 0) {
    counters.out_of_seq_request.add();
  } else if (ahead < 0) {
    counters.duplicate_request.add();
  }
  if (opcode.starts()) {
    abandon();
    return true;
  }
  const bool in_order = ahead == 0;
  if (in_order && message_.admits(opcode)) return true;
  DropReason reason = in_order ? DropReason::bad_sequence : DropReason::out_of_seq_request;
  if (message_.kind() == MessageProgress::Kind::dropped) reason = DropReason::dropped_message;
  abandon();
  if (ahead == 0) expected_psn_ = expected_psn_ + 1;
  drop(reason, packet);
  return false;
}

/// Expects nothing more of the message in progress, if there is one. Its receive request is still
/// the front one.
void Responder::abandon() {
  if (message_.is_under_way()) qp_.engine().counters().abandoned_messages.add();
  message_.end();
}

void Responder::execute_send(const RxPacket& packet) {
  const RecvQueue& queue = qp_.recv_queue();
  if (packet.headers.opcode->starts()) {
    if (queue.empty()) {
      drop(DropReason::no_receive, packet);
      return;
    }
    message_.begin_send();
  }
  const std::uint64_t received = message_.received();
  if (received + packet.payload.length > queue.front().length) {
    fail_receive(WcStatus::loc_len_err, DropReason::short_receive, packet);
    return;
  }
  if (qp_.scatter_to_receive(received, packet.payload) != MemoryStatus::ok) {
    fail_receive(WcStatus::loc_prot_err, DropReason::bad_receive, packet);
    return;
  }
  message_.receive(packet.payload.length);
  if (packet.headers.opcode->ends()) {
    qp_.finish_receive(packet, WcOpcode::recv, static_cast<std::uint32_t>(message_.received()));
  }
  finish_packet(packet);
}

/// Right and extent of a WRITE, by its first packet.
bool Responder::begin_write(const RxPacket& packet) {
  const wire::Reth& write = packet.headers.reth;
  message_.begin_write(write);
  if (write.length > kMaxMessageBytes) {
    drop(DropReason::bad_length, packet);
    return false;
  }
  // A message without bytes touches no memory: its key is not looked at.
  const bool allowed = (qp_.attributes().qp_access_flags & kAccessRemoteWrite) != 0 &&
                       (write.length == 0 || qp_.remote_access(MemoryKey{write.rkey}, write.va,
                                                               write.length, kAccessRemoteWrite)
                                                     .status == MemoryStatus::ok);
  if (!allowed) drop(DropReason::access_denied, packet);
  return allowed;
}

void Responder::execute_write(const RxPacket& packet) {
  const wire::OpcodeInfo& opcode = *packet.headers.opcode;
  if (opcode.starts() && !begin_write(packet)) return;
  const wire::Reth& write = message_.write();
  const std::uint64_t end = message_.received() + packet.payload.length;
  if (opcode.ends() ? end != write.length : end >= write.length) {
    drop(DropReason::bad_length, packet);
    return;
  }
  if (opcode.has_immediate && qp_.recv_queue().empty()) {
    drop(DropReason::no_receive, packet);
    return;
  }
  if (packet.payload.length > 0) {
    // Looked up again: the region may have gone since the first packet.
    const MemoryAccess target =
        qp_.remote_access(MemoryKey{write.rkey}, write.va + message_.received(),
                          packet.payload.length, kAccessRemoteWrite);
    if (target.status != MemoryStatus::ok) {
      drop(DropReason::access_denied, packet);
      return;
    }
    copy_from_mbuf(packet.payload, target.data);
  }
  message_.receive(packet.payload.length);
  if (opcode.ends()) {
    qp_.engine().counters().rx_write_requests.add();
    if (opcode.has_immediate) {
      qp_.finish_receive(packet, WcOpcode::recv_rdma_with_imm, write.length);
    }
  }
  finish_packet(packet);
}

/// The receive request is at fault: it completes with the error, and the queue pair with it.
void Responder::fail_receive(WcStatus status, DropReason reason, const RxPacket& packet) {
  drop(reason, packet);
  qp_.fail_receive(status);
  qp_.enter_error();
}

void Responder::finish_packet(const RxPacket& packet) {
  if (packet.headers.opcode->ends()) message_.end();
}

/// With the packet goes the rest of its message.
void Responder::drop(DropReason reason, const RxPacket& packet) {
  qp_.engine().count_drop(reason, packet.payload.packet);
  if (packet.headers.opcode->ends()) {
    message_.end();
  } else {
    message_.drop();
  }
}

}  // namespace rockhopper::roce::uc
