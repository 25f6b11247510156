// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What arrives: from a UDP datagram to the requester or responder that it is for.
#include <algorithm>
#include <array>
#include <utility>

#include "roce/congestion/notification_point.h"
#include "roce/congestion/pacer.h"
#include "roce/engine.h"
#include "roce/extension.h"
#include "roce/packet_builder.h"
#include "roce/plain_packet.h"
#include "stack/ecn.h"
#include "stack/mbuf_pool.h"
#include "stack/without_icrc.h"

namespace rockhopper::roce {
namespace {

/// The longest IP header, UDP, and all transport headers.
constexpr std::size_t kHeadMax = 60 + 8 + wire::kHeadersMax;
/// What is to be known of an opcode to take its packets as plain.
struct PlainOpcode {
  enum class Kind : std::uint8_t { request, acknowledgement, response };

  std::uint8_t header_bytes;  ///< plain_header_bytes()
  Kind kind;
};
constexpr PlainOpcode::Kind plain_kind(std::uint8_t opcode) {
  if (wire::info(opcode).is_request) return PlainOpcode::Kind::request;
  return static_cast<wire::Opcode>(opcode) == wire::Opcode::rc_acknowledge
             ? PlainOpcode::Kind::acknowledgement
             : PlainOpcode::Kind::response;
}
constexpr std::uint32_t lengths_of(std::uint32_t l3_length, std::uint32_t length) {
  return l3_length << 16 | length;
}

constexpr auto kPlainOpcodes = [] {
  std::array<PlainOpcode, 256> opcodes{};
  for (std::size_t i = 0; i < opcodes.size(); ++i) {
    const auto opcode = static_cast<std::uint8_t>(i);
    opcodes[i] = {static_cast<std::uint8_t>(plain_header_bytes(opcode)), plain_kind(opcode)};
  }
  return opcodes;
}();
bool takes_responses(QpState state) { return state == QpState::rts || state == QpState::sqd; }

/// Why a packet is dropped whose headers are not as they should be.
DropReason reason_of(wire::ParseResult result, const wire::OpcodeInfo* opcode) {
  if (result == wire::ParseResult::unknown_opcode) return DropReason::unknown_opcode;
  if (opcode == nullptr) return DropReason::malformed;
  if (opcode->operation == wire::Operation::cnp) return DropReason::cnp_bad_length;
  const bool is_pad = result == wire::ParseResult::bad_pad;
  return is_pad && opcode->operation == wire::Operation::acknowledge ? DropReason::ack_bad_pad
                                                                     : DropReason::malformed;
}

}  // namespace

void Engine::free_spent() {
  stack::free_packets(std::span(spent_).first(spent_count_));
  spent_count_ = 0;
}

/// Loads the states of the queue pairs that the packets seem to be for, all at a time: they come
/// from memory while the first packets are checked. Believes nothing: a wrong guess only costs
/// time.
void Engine::prefetch_receivers(std::span<rte_mbuf* const> packets) const {
  std::array<const QueuePair*, 64> qps;
  std::size_t found = 0;
  for (const rte_mbuf* packet : packets.first(std::min(packets.size(), qps.size()))) {
    const auto* frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
    // The bytes before the low 16 bits of the queue pair's number, in untagged IPv4 and else IPv6:
    // Ethernet, IP, UDP and the begin of the BTH.
    constexpr std::size_t kIpv4 = 14 + 20 + 8 + 6;
    constexpr std::size_t kIpv6 = 14 + 40 + 8 + 6;
    const std::uint32_t length = packet->data_len;
    const std::size_t offset = length > 12 && frame[12] == 0x08 ? kIpv4 : kIpv6;
    if (length < offset + 2) continue;
    const std::size_t index = index_of(std::uint32_t{frame[offset]} << 8 | frame[offset + 1]);
    const QueuePair* qp = index < qps_.size() ? qps_[index].get() : nullptr;
    if (qp != nullptr && (found == 0 || qps[found - 1] != qp)) {
      qp->prefetch();
      qps[found++] = qp;
    }
  }
  for (std::size_t i = 0; i < found; ++i) {
    qps[i]->prefetch_transport();
  }
}

/// What a queue pair checks before its state changes.
/// In the line of each packet; an extension has a call of its own.
[[gnu::always_inline]] inline std::optional<DropReason> Engine::take(
    QueuePair& qp, const stack::UdpDatagram& datagram, const RxPacket& packet,
    std::uint64_t now_ns) {
  const wire::Headers& headers = packet.headers;
  if (!admits(qp, headers.bth.pkey)) return DropReason::bad_pkey;
  if (!qp.serves(*headers.opcode)) [[unlikely]] {
    // A congestion notification is of no service.
    return headers.opcode->operation == wire::Operation::cnp ? accept_cnp(datagram, qp, now_ns)
                                                             : DropReason::bad_service;
  }
  const bool request = headers.opcode->is_request;
  if (!(request ? takes_requests(qp.state()) : takes_responses(qp.state()))) {
    return DropReason::bad_qp_state;
  }
  if (!qp.accepts(datagram)) return DropReason::bad_address;
  if ((datagram.traffic_class & stack::kEcnMask) == stack::kEcnCe) [[unlikely]] {
    on_marked(qp, *headers.opcode, now_ns);
  }
  deliver(qp, packet, now_ns);
  return std::nullopt;
}

/// Finds the queue pair of a packet that may be plain, and notes it as plain_peer_. Returns false
/// if there is none that takes such packets now, or the packet is not from its peer.
bool Engine::find_plain_peer(const stack::UdpDatagram& datagram, wire::Qpn number,
                             std::uint32_t version_and_pkey) {
  constexpr std::uint32_t kVersion = 0xf0000;
  QueuePair* qp = find_qp(number);
  if (datagram.known == 0 || qp == nullptr || !qp->plain_bursts_ || qp->state() != QpState::rts ||
      (version_and_pkey & kVersion) != 0 ||
      !wire::pkeys_match(qp->pkey_, static_cast<std::uint16_t>(version_and_pkey)) ||
      !qp->accepts(datagram)) {
    return false;
  }
  retire_answered();
  plain_peer_ = {datagram.known, number.value, version_and_pkey, qp};
  return true;
}

/// Finds what computes the ICRC of packets with these lengths, and notes it as plain_icrc_.
void Engine::note_plain_icrc(std::uint32_t l3_length, std::uint32_t length) {
  constexpr std::uint32_t kIpv4Length = 20 + stack::kUdpHeaderBytes;
  plain_icrc_ = {.lengths = lengths_of(l3_length, length),
                 .mask = l3_length == kIpv4Length ? &wire::kIpv4IcrcMask : &wire::kIpv6IcrcMask,
                 .compute = wire::short_icrc(l3_length + length - wire::Icrc::kSize)};
}

/// Requests that are answered in one burst leave the queue at once, as if one ACK had come for all.
inline bool Engine::take_plain_response(const PlainPacket& packet) {
  Requester& requester = *plain_peer_.qp->transport_.requester;
  bool taken = requester.take_plain_response(packet, plain_peer_.answered);
  if (!taken && plain_peer_.answered > 0) {
    // There may be something between the last answered request and this one's.
    retire_all_answered();
    taken = requester.take_plain_response(packet, 0);
  }
  if (taken) ++plain_peer_.answered;
  return taken;
}

void Engine::retire_all_answered() {
  const std::uint32_t count = std::exchange(plain_peer_.answered, 0);
  plain_peer_.qp->transport_.requester->retire_answered(count, now_ns_);
}

/// Takes a packet as nearly all of small messages are, at a fraction of what others cost. Returns
/// false, with nothing changed, for any other, and for one that is wrong in whatever way: accept()
/// finds out why.
[[gnu::always_inline]] inline bool Engine::accept_plain(const stack::UdpDatagram& datagram,
                                                        std::uint64_t now_ns) {
  constexpr auto kIcrc = static_cast<std::uint32_t>(wire::Icrc::kSize);
  const rte_mbuf* packet = datagram.packet;
  const std::uint32_t length = datagram.payload_length;
  const std::uint32_t l3_length = std::uint32_t{datagram.payload_offset} - datagram.l3_offset;
  if (packet->data_len < datagram.payload_offset + length || length < wire::Bth::kSize + kIcrc) {
    return false;
  }
  if (lengths_of(l3_length, length) != plain_icrc_.lengths) [[unlikely]] {
    if (!wire::has_short_icrc(l3_length + length - kIcrc)) return false;
    note_plain_icrc(l3_length, length);
  }
  const auto* l3 = rte_pktmbuf_mtod_offset(packet, const std::uint8_t*, datagram.l3_offset);
  const std::uint8_t* transport = l3 + l3_length;
  const std::uint32_t first = wire::load_be32(transport);
  const wire::Qpn number{wire::load_be32(transport + 4) & wire::kMask24};
  const std::uint32_t version_and_pkey = first & 0xfffff;
  if (number.value != plain_peer_.number || datagram.known != plain_peer_.known ||
      version_and_pkey != plain_peer_.version_and_pkey) [[unlikely]] {
    if (!find_plain_peer(datagram, number, version_and_pkey)) return false;
  }
  const PlainOpcode opcode = kPlainOpcodes[first >> 24];
  const std::uint32_t beside_payload = opcode.header_bytes + (first >> 20 & 3) + kIcrc;
  if (opcode.header_bytes == 0 || length < beside_payload ||
      (datagram.traffic_class & stack::kEcnMask) == stack::kEcnCe) {
    return false;
  }
  const std::uint8_t* icrc = transport + length - kIcrc;
  if (!stack::is_without_icrc(packet) &&
      plain_icrc_.compute(l3, *plain_icrc_.mask, l3_length + length - kIcrc) !=
          wire::load_icrc(std::span<const std::uint8_t, kIcrc>(icrc, kIcrc))) {
    return false;
  }
  const PlainPacket plain{
      .first = first,
      .third = wire::load_be32(transport + 8),
      .headers = transport + wire::Bth::kSize,
      .payload = reinterpret_cast<const std::byte*>(transport + opcode.header_bytes),
      .length = length - beside_payload};
  if (opcode.kind == PlainOpcode::Kind::response) return take_plain_response(plain);
  retire_answered();
  const Transport& to = plain_peer_.qp->transport_;
  return opcode.kind == PlainOpcode::Kind::request ? to.responder->take_plain(plain)
                                                   : to.requester->take_plain(plain, now_ns);
}

void Engine::on_udp(const stack::UdpDatagram& datagram, std::uint64_t now_ns) {
  counters_.rcvd_pkts.add();
  counters_.rcvd_bytes.add(datagram.payload_length);
  if (!accept_plain(datagram, now_ns)) {
    retire_answered();
    if (const auto reason = accept(datagram, now_ns)) count_drop(*reason, datagram.packet);
  }
  if (spent_count_ == spent_.size()) free_spent();
  spent_[spent_count_++] = datagram.packet;
}

/// Reads any packet, and says why it is to be dropped; nothing if it is not.
std::optional<DropReason> Engine::read(const stack::UdpDatagram& datagram,
                                       wire::Headers& headers) const {
  const rte_mbuf* packet = datagram.packet;
  const std::uint32_t l3_length =
      std::uint32_t{datagram.payload_offset} - datagram.l3_offset;  // IP and UDP headers
  if (datagram.payload_length < wire::Bth::kSize + wire::Icrc::kSize || l3_length > 60 + 8) {
    return DropReason::malformed;
  }
  // The headers in one piece: in place when the first segment holds them, else copied.
  std::array<std::uint8_t, kHeadMax> copy;
  const std::uint32_t head_length =
      std::min<std::uint32_t>(l3_length + wire::kHeadersMax, l3_length + datagram.payload_length);
  const auto* head = static_cast<const std::uint8_t*>(
      rte_pktmbuf_read(packet, datagram.l3_offset, head_length, copy.data()));
  if (head == nullptr) return DropReason::malformed;
  const std::span transport{head + l3_length, head_length - l3_length};
  auto parsed = wire::parse_headers(transport, datagram.payload_length, headers);
  if (parsed != wire::ParseResult::ok) [[unlikely]] {
    if (parsed == wire::ParseResult::unknown_opcode && config_.nak_reserved_opcodes) {
      parsed = wire::parse_reserved_request(transport, datagram.payload_length, headers);
    }
    if (parsed != wire::ParseResult::ok) return reason_of(parsed, headers.opcode);
  }
  if (stack::is_without_icrc(packet)) return std::nullopt;
  const std::uint32_t icrc_offset = std::uint32_t{datagram.payload_offset} +
                                    datagram.payload_length -
                                    static_cast<std::uint32_t>(wire::Icrc::kSize);
  std::array<std::byte, wire::Icrc::kSize> trailer;
  copy_from_mbuf({packet, icrc_offset, wire::Icrc::kSize}, trailer.data());
  const std::span<const std::uint8_t, wire::Icrc::kSize> icrc_bytes{
      reinterpret_cast<const std::uint8_t*>(trailer.data()), wire::Icrc::kSize};
  if (packet_icrc(packet, {head, l3_length + wire::Bth::kSize}, datagram.l3_offset, icrc_offset) !=
      wire::load_icrc(icrc_bytes)) {
    return DropReason::bad_icrc;
  }
  return std::nullopt;
}

/// All that is checked before any state changes; then the packet is the queue pair's.
std::optional<DropReason> Engine::accept(const stack::UdpDatagram& datagram, std::uint64_t now_ns) {
  wire::Headers headers;
  if (const auto reason = read(datagram, headers)) return reason;
  const RxPacket received{
      headers,
      {datagram.packet, std::uint32_t{datagram.payload_offset} + headers.payload_offset,
       headers.payload_length},
      datagram.l3_offset};
  if (belongs_to_extension(*headers.opcode)) [[unlikely]] {
    return extension_ != nullptr ? extension_->accept(datagram, received, now_ns)
                                 : DropReason::unserved_opcode;
  }
  QueuePair* qp = find_qp(headers.bth.destination);
  if (qp == nullptr) [[unlikely]] {
    if (headers.bth.destination == wire::kMulticastQpn) {
      return accept_multicast(datagram, received, now_ns);
    }
    const bool cnp = headers.opcode->operation == wire::Operation::cnp;
    return cnp && extension_ != nullptr ? extension_->accept(datagram, received, now_ns)
                                        : DropReason::unknown_qp;
  }
  return take(*qp, datagram, received, now_ns);
}

std::optional<DropReason> Engine::accept_for(QueuePair& qp, const stack::UdpDatagram& datagram,
                                             const RxPacket& packet, std::uint64_t now_ns) {
  return take(qp, datagram, packet, now_ns);
}

/// Queue pair 1 serves all partitions of the port (IBTA vol. 1, 9.6.1.1.3).
bool Engine::has_pkey(std::uint16_t pkey) const { return pkeys_.find(pkey).has_value(); }

/// Takes note of "congestion experienced". Only a sender of data is told: acknowledgements load
/// nothing.
void Engine::on_marked(QueuePair& qp, const wire::OpcodeInfo& opcode, std::uint64_t now_ns) {
  counters_.np_ecn_marked_roce_packets.add();
  const bool data = opcode.is_request || opcode.has_payload;
  if (data && qp.is_connected()) notifications_->on_marked(qp, now_ns);
}

/// A congestion notification is for the queue pair that it names, if it comes from its peer.
std::optional<DropReason> Engine::accept_cnp(const stack::UdpDatagram& datagram, QueuePair& qp,
                                             std::uint64_t now_ns) {
  if (!qp.is_connected()) return DropReason::bad_service;
  if (!takes_requests(qp.state())) return DropReason::bad_qp_state;
  if (!qp.accepts(datagram)) return DropReason::bad_address;
  count_cnp(obey_cnp(qp, now_ns));
  return std::nullopt;
}

bool Engine::obey_cnp(QueuePair& qp, std::uint64_t now_ns) {
  if (qp.pacer_ == nullptr || !qp.pacer_->control().uses_ecn()) return false;
  qp.pacer_->control().on_cnp(now_ns);
  return true;
}

/// The first request of a connection, before this end has been told to send.
void Engine::note_established(QueuePair& qp) {
  if (!qp.established_ && qp.is_connected() && !is_of_extension(qp.init_.qp_type)) {
    qp.established_ = true;
    raise({.type = AsyncEventType::comm_est, .qp_num = qp.number()});
  }
}

}  // namespace rockhopper::roce
