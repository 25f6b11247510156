// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>

#include "roce/rc/requester.h"
#include "roce/segmentation.h"
#include "roce/short_packet.h"
#include "roce/transport_context.h"

namespace rockhopper::roce::rc {

namespace detail {

/// What the packet of a request looks like that PlainSender can send.
struct PlainForm {
  wire::Opcode opcode;
  std::uint8_t header_bytes;  ///< BTH and all behind it; 0: it cannot
  bool has_payload;
};

inline constexpr auto kPlainForms = [] {
  std::array<PlainForm, kWrOpcodes> forms{};
  const auto put = [&forms](WrOpcode request, wire::Opcode opcode) {
    const wire::OpcodeInfo& info = wire::info(opcode);
    forms[static_cast<std::size_t>(request)] = {
        opcode, static_cast<std::uint8_t>(wire::Bth::kSize + info.header_bytes), info.has_payload};
  };
  put(WrOpcode::send, wire::Opcode::rc_send_only);
  put(WrOpcode::rdma_write, wire::Opcode::rc_rdma_write_only);
  put(WrOpcode::rdma_read, wire::Opcode::rc_rdma_read_request);
  put(WrOpcode::atomic_cmp_and_swp, wire::Opcode::rc_compare_swap);
  put(WrOpcode::atomic_fetch_and_add, wire::Opcode::rc_fetch_add);
  return forms;
}();

[[nodiscard]] constexpr const PlainForm& plain_form(WrOpcode opcode) {
  return kPlainForms[static_cast<std::size_t>(opcode)];
}

}  // namespace detail

/// Sends the requests that make up nearly all traffic of small messages, as Sender would, for a
/// third of the instructions: SEND and WRITE of one short packet, READ and atomics, sent for the
/// first time, while nothing stands in their way. What all of a burst depends on is asked once.
/// Sender goes on from where this one stops. Lives for one call of Requester::transmit().
class Requester::PlainSender {
 public:
  explicit PlainSender(Requester& requester) : requester_(requester), qp_(requester.qp_) {}

  [[nodiscard, gnu::always_inline]] TransmitResult run(rte_mbuf** packets, std::uint16_t count);

 private:
  /// Bits of `flags` that want more than to be sent.
  static constexpr std::uint32_t kNotPlain =
      kSendFence | SendWqe::kSettled | SendWqe::kInScope | SendWqe::kLocal | SendWqe::kLock;

  [[nodiscard]] bool may_run() const;
  [[nodiscard]] std::uint32_t room() const;
  [[nodiscard]] bool is_plain(const SendWqe& request) const;
  [[nodiscard]] const std::byte* payload_of(const SendWqe& request, std::uint64_t sequence) const;
  [[gnu::always_inline]] void build(const ShortPackets& made, rte_mbuf* packet,
                                    const SendWqe& request, const std::byte* payload) const;

  Requester& requester_;
  TransportContext qp_;
};

/// What does not change within a burst.
inline bool Requester::PlainSender::may_run() const {
  const SendWindow& window = requester_.window_;
  return qp_.sends_plain_bursts() && qp_.state() == QpState::rts && qp_.pacer() == nullptr &&
         qp_.adaptive_timeout() == nullptr && !qp_.repeats_selectively() &&
         !requester_.retry_.is_rnr_wait() && window.is_at_new() && !window.is_going_over();
}

/// Counts the requests that may be sent.
inline std::uint32_t Requester::PlainSender::room() const {
  const SendWindow& window = requester_.window_;
  const std::uint32_t in_flight = window.cursor_ahead() - requester_.responses_.psns();
  const std::uint32_t most = qp_.engine().config().max_unacked_packets;
  return std::min(most - std::min(most, in_flight), window.left(qp_.send_queue()));
}

inline bool Requester::PlainSender::is_plain(const SendWqe& request) const {
  const detail::PlainForm& form = detail::plain_form(request.opcode);
  if ((request.flags & kNotPlain) != 0 || request.num_sge > 1 || form.header_bytes == 0 ||
      request.failure != WcStatus::success) {
    return false;
  }
  if (!form.has_payload) {
    return requester_.responses_.has_room(qp_.attributes().max_rd_atomic, true);
  }
  return request.length <= ShortPackets::kPayloadMax &&
         (request.opcode != WrOpcode::send || !requester_.credits_.may_limit_next());
}

/// Returns null if Sender has to find out whether the request can read its memory.
inline const std::byte* Requester::PlainSender::payload_of(const SendWqe& request,
                                                           std::uint64_t sequence) const {
  static constexpr std::byte kNothing{};
  SendQueue& queue = qp_.send_queue();
  if ((request.flags & kSendInline) != 0) return queue.extra(sequence).data();
  if (request.length == 0 || request.has_response()) return &kNothing;
  const Sge& sge = queue.sges(sequence).front();
  return qp_.engine().memory().simple_access(sge.lkey, qp_.pd(), sge.addr, request.length, 0);
}

inline void Requester::PlainSender::build(const ShortPackets& made, rte_mbuf* packet,
                                          const SendWqe& request, const std::byte* payload) const {
  const detail::PlainForm& form = detail::plain_form(request.opcode);
  const std::uint32_t length = form.has_payload ? request.length : 0;
  const std::uint8_t pad = wire::pad_count(length);
  const std::uint32_t transport_length = form.header_bytes + length + pad;
  std::uint8_t* transport = made.begin(packet, transport_length);
  const wire::Bth bth{
      .opcode = static_cast<std::uint8_t>(form.opcode),
      .solicited = (request.flags & kSendSolicited) != 0 && request.opcode == WrOpcode::send,
      .mig_req = true,  // as RequestPacket has it
      .pad_count = pad,
      .pkey = qp_.pkey(),
      .destination = qp_.attributes().dest_qp_num,
      .ack_request = true,  // the last packet of its message
      .psn = requester_.window_.cursor_psn()};
  bth.emit(std::span<std::uint8_t, wire::Bth::kSize>(transport, wire::Bth::kSize));
  std::uint8_t* next = transport + wire::Bth::kSize;
  if (request.opcode == WrOpcode::send) {
    // Nothing stands between BTH and payload.
  } else if (!request.is_atomic()) {
    const SendWqe::RemoteMemory& remote = request.remote();
    const wire::Reth reth{.va = remote.addr,
                          .rkey = static_cast<std::uint32_t>(remote.rkey),
                          .length = request.length};
    reth.emit(std::span<std::uint8_t, wire::Reth::kSize>(next, wire::Reth::kSize));
  } else {
    const SendWqe::Atomic& atomic = request.atomic();
    const wire::AtomicEth atomic_eth{.va = atomic.remote.addr,
                                     .rkey = static_cast<std::uint32_t>(atomic.remote.rkey),
                                     .swap_add = atomic.swap_add,
                                     .compare = atomic.compare};
    atomic_eth.emit(std::span<std::uint8_t, wire::AtomicEth::kSize>(next, wire::AtomicEth::kSize));
  }
  if (form.has_payload) put_payload(transport + form.header_bytes, payload, length);
  made.end(packet, transport, transport_length);
}

inline TransmitResult Requester::PlainSender::run(rte_mbuf** packets, std::uint16_t count) {
  TransmitResult result;
  if (!may_run()) return result;
  SendQueue& queue = qp_.send_queue();
  SendWindow& window = requester_.window_;
  const auto most = static_cast<std::uint16_t>(std::min<std::uint32_t>(count, room()));
  if (most == 0 || !is_plain(queue.at(window.cursor())) ||
      rte_pktmbuf_alloc_bulk(qp_.packet_pool(), packets, most) != 0) {
    return result;  // Sender says what is missing
  }
  const ShortPackets made = qp_.short_packets();
  while (result.count < most) {
    const std::uint64_t sequence = window.cursor();
    SendWqe& request = queue.at(sequence);
    if (!is_plain(request)) break;
    const std::uint32_t psns =
        request.is_read() ? packets_of(request.length, bytes(qp_.attributes().path_mtu)) : 1;
    if (!window.has_room(psns)) break;
    const std::byte* payload = payload_of(request, sequence);
    if (payload == nullptr) break;
    build(made, packets[result.count], request, payload);
    window.send_new(request, psns);
    requester_.credits_.number(request);
    if (request.has_response()) requester_.responses_.on_sent(psns);
    result.add(packets, packets[result.count], qp_.flow());
  }
  if (result.count > 0) requester_.credits_.end_probe();
  if (result.count < most) rte_pktmbuf_free_bulk(packets + result.count, most - result.count);
  return result;
}

}  // namespace rockhopper::roce::rc
