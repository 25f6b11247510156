// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>

#include "roce/plain_packet.h"
#include "roce/rc/requester.h"
#include "roce/segmentation.h"
#include "roce/short_packet.h"
#include "roce/transport_context.h"

namespace rockhopper::roce::rc {

namespace detail {

/// What the packet of a request looks like that PlainSender can send.
struct PlainForm {
  std::uint32_t first_word;    ///< plain_first_word()
  std::uint16_t header_bytes;  ///< BTH and all behind it; 0: it cannot
  bool has_payload;
};

inline constexpr auto kPlainForms = [] {
  std::array<PlainForm, kWrOpcodes> forms{};
  const auto put = [&forms](WrOpcode request, wire::Opcode opcode) {
    const wire::OpcodeInfo& info = wire::info(opcode);
    forms[static_cast<std::size_t>(request)] = {
        plain_first_word(opcode), static_cast<std::uint16_t>(wire::Bth::kSize + info.header_bytes),
        info.has_payload};
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
///
/// What changes with each packet is a copy of the requester's, or an object beside it, and given
/// back at the end: packets are written as bytes, after which a compiler has to read again all that
/// is not its own.
class Requester::PlainSender {
 public:
  explicit PlainSender(Requester& requester)
      : requester_(requester),
        qp_(requester.qp_),
        responses_(requester.responses_),
        credits_(requester.credits_) {}

  [[nodiscard, gnu::always_inline]] TransmitResult run(rte_mbuf** packets, std::uint16_t count);

 private:
  /// Bits of `flags` that want more than to be sent.
  static constexpr std::uint32_t kNotPlain =
      kSendFence | SendWqe::kSettled | SendWqe::kInScope | SendWqe::kLocal | SendWqe::kLock;

  /// What the packets of requests with one shape have in common.
  struct Common {
    SendWqe::Shape shape;
    bool is_send;
    bool is_atomic;
    bool has_payload;
    std::uint32_t payload_length;
    std::uint32_t transport_length;  ///< from the BTH to the padding
    std::uint32_t psns;
    bool is_limited;  ///< may_send() is to be asked before each
  };

  [[nodiscard]] bool may_run() const;
  [[nodiscard]] std::uint32_t room() const;
  [[nodiscard]] static bool is_plain(const SendWqe& request);
  [[nodiscard]] bool may_send(const SendWqe& request) const;
  [[nodiscard, gnu::always_inline]] Common common_of(const SendWqe& request,
                                                     ShortPackets& made) const;
  [[nodiscard, gnu::always_inline]] std::uint32_t send_burst(rte_mbuf** packets, std::uint32_t most,
                                                             TransmitResult& result);
  [[gnu::always_inline]] static void build(const ShortPackets& made, rte_mbuf* packet,
                                           const Common& common, const SendWqe& request,
                                           wire::Psn psn, const std::byte* payload);

  Requester& requester_;
  TransportContext qp_;
  ResponseWindow responses_;
  Credits credits_;
};

/// What does not change within a burst.
inline bool Requester::PlainSender::may_run() const {
  return qp_.sends_plain_bursts() && qp_.state() == QpState::rts && qp_.pacer() == nullptr &&
         qp_.adaptive_timeout() == nullptr && !qp_.repeats_selectively() &&
         !requester_.retry_.is_rnr_wait() && requester_.window_.is_at_new() &&
         !requester_.window_.is_going_over();
}

/// Counts the requests that may be sent.
inline std::uint32_t Requester::PlainSender::room() const {
  const SendWindow& window = requester_.window_;
  const std::uint32_t in_flight = window.cursor_ahead() - responses_.psns();
  const std::uint32_t most = qp_.engine().config().max_unacked_packets;
  return std::min(most - std::min(most, in_flight), window.left(qp_.send_queue()));
}

/// Says of a request's shape whether its packet can be made here.
inline bool Requester::PlainSender::is_plain(const SendWqe& request) {
  const detail::PlainForm& form = detail::plain_form(request.opcode);
  return (request.flags & kNotPlain) == 0 && request.num_sge <= 1 && form.header_bytes != 0 &&
         request.failure == WcStatus::success &&
         (!form.has_payload || request.length <= ShortPackets::kPayloadMax);
}

/// The next request may be sent, by what those before it have used up.
inline bool Requester::PlainSender::may_send(const SendWqe& request) const {
  if (request.has_response()) return responses_.has_room(qp_.attributes().max_rd_atomic, true);
  return request.opcode != WrOpcode::send || !credits_.may_limit_next();
}

/// Has packets of this shape prepared.
inline Requester::PlainSender::Common Requester::PlainSender::common_of(const SendWqe& request,
                                                                        ShortPackets& made) const {
  const detail::PlainForm& form = detail::plain_form(request.opcode);
  const std::uint32_t length = form.has_payload ? request.length : 0;
  const std::uint32_t pad = wire::pad_count(length);
  const bool is_send = request.opcode == WrOpcode::send;
  const std::uint32_t solicited = is_send && (request.flags & kSendSolicited) != 0 ? 1u << 23 : 0;
  const std::uint32_t transport_length = form.header_bytes + length + pad;
  made.prepare(transport_length, form.first_word | solicited | pad << 20);
  const std::uint32_t mtu = bytes(qp_.attributes().path_mtu);
  return {.shape = request.shape(),
          .is_send = is_send,
          .is_atomic = request.is_atomic(),
          .has_payload = form.has_payload,
          .payload_length = length,
          .transport_length = transport_length,
          .psns = request.is_read() ? packets_of(request.length, mtu) : 1,
          .is_limited = is_send || !form.has_payload};
}

inline void Requester::PlainSender::build(const ShortPackets& made, rte_mbuf* packet,
                                          const Common& common, const SendWqe& request,
                                          wire::Psn psn, const std::byte* payload) {
  constexpr std::uint32_t kAckRequest = 1u << 31;  // each is the last packet of its message
  std::uint8_t* next = made.begin(packet, kAckRequest | psn.value);
  if (common.is_send) {
    // Nothing stands between BTH and payload.
  } else if (!common.is_atomic) {
    const SendWqe::RemoteMemory& remote = request.remote();
    const wire::Reth reth{.va = remote.addr,
                          .rkey = static_cast<std::uint32_t>(remote.rkey),
                          .length = request.length};
    reth.emit(std::span<std::uint8_t, wire::Reth::kSize>(next, wire::Reth::kSize));
    next += wire::Reth::kSize;
  } else {
    const SendWqe::Atomic& atomic = request.atomic();
    const wire::AtomicEth atomic_eth{.va = atomic.remote.addr,
                                     .rkey = static_cast<std::uint32_t>(atomic.remote.rkey),
                                     .swap_add = atomic.swap_add,
                                     .compare = atomic.compare};
    atomic_eth.emit(std::span<std::uint8_t, wire::AtomicEth::kSize>(next, wire::AtomicEth::kSize));
  }
  if (common.has_payload) put_payload(next, payload, common.payload_length);
  made.end(packet);
}

/// Sends up to `most` requests in so many mbufs, of which the first is plain. Returns how many.
inline std::uint32_t Requester::PlainSender::send_burst(rte_mbuf** packets, std::uint32_t most,
                                                        TransmitResult& result) {
  static constexpr std::byte kNothing{};
  SendQueue& queue = qp_.send_queue();
  const SendQueue::Entries requests(queue);
  MemoryTable::SimpleUser memory(qp_.engine().memory(), qp_.pd(), 0);
  ShortPackets made = qp_.short_packets();
  SendWindow::NewRequests numbers(requester_.window_);
  Common common = common_of(requests.at(requests.slot(numbers.cursor())), made);
  std::uint32_t sent = 0;
  for (; sent < most; ++sent) {
    const std::size_t slot = requests.slot(numbers.cursor());
    SendWqe& request = requests.at(slot);
    if (request.shape() != common.shape) {
      if (!is_plain(request)) break;
      common = common_of(request, made);
    }
    if ((common.is_limited && !may_send(request)) || !numbers.has_room(common.psns)) break;
    const std::byte* payload = &kNothing;
    if ((request.flags & kSendInline) != 0) {
      payload = queue.extra(numbers.cursor()).data();
    } else if (common.payload_length > 0) {
      const Sge& sge = requests.sge(slot);
      payload = memory.access(sge.lkey, sge.addr, common.payload_length);
      if (payload == nullptr) break;  // Sender finds out why
    }
    build(made, packets[sent], common, request, numbers.psn(), payload);
    numbers.send(request, common.psns);
    credits_.number(request);
    if (!common.has_payload) responses_.on_sent(common.psns);
    result.bytes += common.transport_length + static_cast<std::uint32_t>(wire::Icrc::kSize);
  }
  requester_.window_.take(numbers);
  return sent;
}

inline TransmitResult Requester::PlainSender::run(rte_mbuf** packets, std::uint16_t count) {
  TransmitResult result;
  if (!may_run()) return result;
  const std::uint32_t most = std::min<std::uint32_t>(count, room());
  if (most == 0) return result;
  const SendWqe& first = qp_.send_queue().at(requester_.window_.cursor());
  if (!is_plain(first) || !may_send(first) ||
      !stack::take_mbufs(qp_.packet_pool(), packets, most)) {
    return result;  // Sender says what is missing
  }
  const std::uint32_t sent = send_burst(packets, most, result);
  stack::return_mbufs(qp_.packet_pool(), packets + sent, most - sent);
  if (sent > 0) credits_.end_probe();
  result.count = static_cast<std::uint16_t>(sent);
  requester_.responses_ = responses_;
  requester_.credits_ = credits_;
  return result;
}

}  // namespace rockhopper::roce::rc
