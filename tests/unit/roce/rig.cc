// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/unit/roce/rig.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <type_traits>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/roce_locator.h"
#include "tests/support/must.h"

namespace rockhopper::test {
namespace {

using roce::QpState;

constexpr rte_ether_addr kOwnMac{{2, 0, 0, 0, 0, 1}};
constexpr rte_ether_addr kPeerMac{{2, 0, 0, 0, 0, 2}};
constexpr std::uint32_t kOwnIpv4 = 0x0a000001;
constexpr std::uint32_t kPeerIpv4 = 0x0a000002;
constexpr std::uint16_t kPeerPort = 0xc123;

stack::MbufPool& pool() {
  // Never freed: the EAL ends before static objects do.
  static auto* const made = new stack::MbufPool(std::move(
      stack::MbufPool::create({.name = {}, .size = 2047, .cache = 0, .data_room = 4608}).value()));
  return *made;
}

stack::IpAddress ipv6_of(std::uint32_t ipv4) {
  stack::IpAddress address = stack::IpAddress::from_ipv4(ipv4);
  address.bytes[0] = 0xfd;
  address.bytes[10] = address.bytes[11] = 0;
  return address;
}

void append(Payload& to, const void* from, std::size_t length) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  to.insert(to.end(), bytes, bytes + length);
}

/// Bytes of the IP header of a frame that holds a UDP packet; 0 for others.
std::size_t udp_ip_length(const Payload& frame) {
  const auto l3 = std::span<const std::uint8_t>(frame).subspan(sizeof(rte_ether_hdr));
  const int ether_type = frame[12] << 8 | frame[13];
  if (ether_type == RTE_ETHER_TYPE_IPV4 &&
      l3[offsetof(rte_ipv4_hdr, next_proto_id)] == IPPROTO_UDP) {
    return sizeof(rte_ipv4_hdr);
  }
  if (ether_type == RTE_ETHER_TYPE_IPV6 && l3[offsetof(rte_ipv6_hdr, proto)] == IPPROTO_UDP) {
    return sizeof(rte_ipv6_hdr);
  }
  return 0;
}

/// IP and UDP header of a packet with `udp_length` bytes from the UDP header on.
void append_l3(Payload& frame, const Damage& damage, std::size_t udp_length) {
  const std::uint32_t source = kPeerIpv4 + (damage.source_address ? 7 : 0);
  const std::uint32_t destination = kOwnIpv4 + (damage.destination_address ? 2 : 0);
  if (damage.as_ipv6) {
    rte_ipv6_hdr ip{};
    ip.vtc_flow = rte_cpu_to_be_32(6u << 28 | std::uint32_t{damage.traffic_class} << 20);
    ip.payload_len = rte_cpu_to_be_16(static_cast<std::uint16_t>(udp_length));
    ip.proto = IPPROTO_UDP;
    ip.hop_limits = 64;
    std::memcpy(&ip.src_addr, ipv6_of(source).bytes.data(), 16);
    std::memcpy(&ip.dst_addr, damage.destination.value_or(ipv6_of(destination)).bytes.data(), 16);
    append(frame, &ip, sizeof ip);
  } else {
    rte_ipv4_hdr ip{};
    ip.version_ihl = RTE_IPV4_VHL_DEF;
    ip.type_of_service = damage.traffic_class;
    ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(sizeof ip + udp_length));
    ip.time_to_live = 64;
    ip.next_proto_id = IPPROTO_UDP;
    ip.src_addr = rte_cpu_to_be_32(source);
    ip.dst_addr = rte_cpu_to_be_32(damage.destination ? damage.destination->ipv4() : destination);
    ip.hdr_checksum = rte_ipv4_cksum(&ip);
    append(frame, &ip, sizeof ip);
  }
  rte_udp_hdr udp{};
  udp.src_port = rte_cpu_to_be_16(kPeerPort);
  udp.dst_port = rte_cpu_to_be_16(stack::kRoceUdpPort);
  udp.dgram_len = rte_cpu_to_be_16(static_cast<std::uint16_t>(udp_length));
  append(frame, &udp, sizeof udp);
}

}  // namespace

void PrintTo(const Packet& packet, std::ostream* out) {
  const char* name = wire::info(packet.headers.bth.opcode).name;
  *out << name << " PSN 0x" << std::hex << packet.psn() << std::dec << ", " << packet.payload.size()
       << " bytes";
  if (wire::info(packet.headers.bth.opcode).has(wire::Header::aeth)) {
    *out << ", syndrome 0x" << std::hex << unsigned{packet.headers.aeth.syndrome} << std::dec
         << ", MSN " << packet.headers.aeth.msn;
  }
  if (wire::info(packet.headers.bth.opcode).has(wire::Header::lkaeth)) {
    const wire::Lkaeth& answer = packet.headers.lkaeth;
    *out << ", status " << static_cast<unsigned>(answer.status) << ", cause "
         << static_cast<unsigned>(answer.cause) << ", scope " << answer.scope_id;
  }
}

Rig::Rig(const ConnectionOptions& options, std::uint32_t max_unacked_packets)
    : memory_(kMemoryBytes) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    memory_[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  }
  original_ = memory_;
  host_ = must(stack::Host::create({.mac = kOwnMac,
                                    .mtu = options.link_mtu,
                                    .vlan_id = {},
                                    .priority_tags = options.priority_tags,
                                    .packet_pool = pool().get()}));
  for (const bool v6 : {false, true}) {
    const auto own = v6 ? ipv6_of(kOwnIpv4) : stack::IpAddress::from_ipv4(kOwnIpv4);
    const auto peer = v6 ? ipv6_of(kPeerIpv4) : stack::IpAddress::from_ipv4(kPeerIpv4);
    must(host_->add_address(own, v6 ? 64 : 24));
    must(host_->add_static_neighbour(peer, kPeerMac));
  }
  engine_ = must(roce::Engine::create({.host = host_.get(),
                                       .packet_pool = pool().get(),
                                       .random = &random_,
                                       .max_qp = options.max_qp,
                                       .max_unacked_packets = max_unacked_packets,
                                       .max_held_packets = options.max_held_packets,
                                       .pkeys = options.pkeys,
                                       .nak_reserved_opcodes = options.nak_reserved_opcodes,
                                       .cnp = options.cnp,
                                       .credits = options.credits,
                                       .retransmissions = options.retransmissions,
                                       .line_rate = options.line_rate,
                                       .async_notifier = options.async_notifier,
                                       .persistence = options.persistence,
                                       .locks = options.locks}));
  send_cq_ = must(roce::CompletionQueue::create(options.cq_capacity));
  recv_cq_ = must(roce::CompletionQueue::create(options.cq_capacity));
  pd_ = engine_->allocate_pd();
  region_ = must(engine_->register_memory(pd_, memory_.data(), memory_.size(), roce::kAccessAll));
  host_->receive(nullptr, 0, now_ns_);
  // What the host announces of itself is of no interest here.
  (void)sent();
  if (options.srq_max_wr > 0) {
    srq_ = must(engine_->create_srq(
        {.pd = pd_, .attributes = {.max_wr = options.srq_max_wr, .max_sge = options.max_sge}}));
  }
  qp_ = &make_qp(options);
  if (options.qp_type == roce::QpType::ud) ah_ = &make_ah(address_vector(options.peer));
  bring_up(*qp_, options);
}

Rig::~Rig() {
  (void)sent();
  engine_.reset();
  host_.reset();
  EXPECT_EQ(pool().in_use(), 0u) << "mbufs have not come back";
}

std::uint64_t Rig::drops(roce::DropReason reason) const {
  return counters().drops[static_cast<std::size_t>(reason)].value();
}

roce::QueuePair& Rig::make_qp(const ConnectionOptions& options) {
  return *must(engine_->create_qp({.qp_type = options.qp_type,
                                   .pd = pd_,
                                   .send_cq = send_cq_.get(),
                                   .recv_cq = recv_cq_.get(),
                                   .srq = options.srq_max_wr > 0 ? srq_ : nullptr,
                                   .max_send_wr = options.max_send_wr,
                                   .max_recv_wr = options.max_recv_wr,
                                   .max_send_sge = options.max_sge,
                                   .max_recv_sge = options.max_sge,
                                   .max_inline_data = options.max_inline,
                                   .sq_sig_all = options.sq_sig_all,
                                   .extended_atomics = options.extended_atomics,
                                   .lock_execution = options.lock_execution}));
}

roce::QpAttributes Rig::attributes(const ConnectionOptions& options) const {
  roce::QpAttributes a;
  a.qp_access_flags = options.access;
  a.path_mtu = options.path_mtu;
  a.dest_qp_num = wire::Qpn{kPeerQpn};
  a.rq_psn = wire::Psn{options.rq_psn};
  a.sq_psn = wire::Psn{options.sq_psn};
  a.max_dest_rd_atomic = options.max_dest_rd_atomic;
  a.max_rd_atomic = options.max_rd_atomic;
  a.min_rnr_timer = options.min_rnr_timer;
  a.timeout = options.timeout;
  a.retry_cnt = options.retry_cnt;
  a.rnr_retry = options.rnr_retry;
  a.qkey = options.qkey;
  a.pkey_index = options.pkey_index;
  a.ah_attr = address_vector(options.peer);
  return a;
}

roce::AddressVector Rig::address_vector(const stack::IpAddress& peer) const {
  return {.source = peer.is_ipv4() ? stack::IpAddress::from_ipv4(kOwnIpv4) : own_ipv6(),
          .destination = peer};
}

roce::AddressHandle& Rig::make_ah(const roce::AddressVector& av) {
  return *must(engine_->create_ah(pd_, av));
}

stack::IpAddress Rig::own_ipv6() { return ipv6_of(kOwnIpv4); }

stack::IpAddress Rig::peer_ipv6() { return ipv6_of(kPeerIpv4); }

StepMasks step_masks(roce::QpType type) {
  using namespace roce;
  switch (type) {
    case QpType::rc:
      return {
          .init = kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags,
          .rtr = kQpState | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic |
                 kQpMinRnrTimer,
          .rts = kQpState | kQpSqPsn | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic};
    case QpType::uc:
      return {.init = kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags,
              .rtr = kQpState | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn,
              .rts = kQpState | kQpSqPsn};
    case QpType::ud:
      return {.init = kQpState | kQpPkeyIndex | kQpPort | kQpQkey,
              .rtr = kQpState,
              .rts = kQpState | kQpSqPsn};
    case QpType::xrc_send:
      return {
          .init = kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags,
          .rtr = kQpState | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn,
          .rts = kQpState | kQpSqPsn | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic};
    case QpType::xrc_recv:
      return {.init = kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags,
              .rtr = kQpState | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic |
                     kQpMinRnrTimer,
              .rts = kQpState | kQpSqPsn | kQpTimeout};
    case QpType::extension_initiator:
    case QpType::extension_responder:
      break;  // not made here
  }
  return {};
}

void Rig::bring_up(roce::QueuePair& qp, const ConnectionOptions& options) {
  const StepMasks masks = step_masks(options.qp_type);
  roce::QpAttributes a = attributes(options);
  const auto reached = [&](QpState state) { return options.state == state; };
  if (reached(QpState::reset)) return;
  a.qp_state = QpState::init;
  must(qp.modify(a, masks.init));
  if (reached(QpState::init)) return;
  a.qp_state = QpState::rtr;
  must(qp.modify(a, masks.rtr));
  if (reached(QpState::rtr)) return;
  a.qp_state = QpState::rts;
  must(qp.modify(a, masks.rts));
  if (reached(QpState::sqe)) {
    // A local error leads there, and nothing else.
    const std::array<roce::Sge, 1> list{{{.addr = va(), .length = 1, .lkey = invalid_key()}}};
    EXPECT_EQ(qp.post_send({.sg_list = list, .ah = ah_}), roce::PostResult::ok);
    EXPECT_TRUE(sent().empty());
    EXPECT_EQ(send_completions().size(), 1u);
  }
  if (reached(QpState::sqd) || reached(QpState::err)) {
    a.qp_state = options.state;
    must(qp.modify(a, roce::kQpState));
  }
}

std::uint64_t Rig::va(std::size_t offset) const {
  return reinterpret_cast<std::uintptr_t>(memory_.data()) + offset;
}

roce::MemoryRegion Rig::add_region(std::size_t offset, std::size_t length, std::uint32_t access) {
  return must(engine_->register_memory(pd_, memory_.data() + offset, length, access));
}

Payload Rig::memory_at(std::size_t offset, std::size_t length) const {
  const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

bool Rig::untouched_outside(std::size_t offset, std::size_t length) const {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if ((i < offset || i >= offset + length) && memory_[i] != original_[i]) return false;
  }
  return true;
}

rte_mbuf* Rig::build(const Packet& packet, const Damage& damage) {
  std::array<std::uint8_t, wire::kHeadersMax> headers{};
  wire::Headers copy = packet.headers;
  const std::uint8_t padding = wire::pad_count(packet.payload.size());
  copy.bth.pad_count = damage.pad_count.value_or(padding);
  copy.bth.version = damage.version.value_or(copy.bth.version);
  copy.bth.pkey = damage.pkey.value_or(copy.bth.pkey);
  const std::size_t header_length = wire::emit_headers(copy, headers);
  Payload transport(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(header_length));
  transport[0] = damage.opcode.value_or(transport[0]);
  append(transport, packet.payload.data(), packet.payload.size());
  transport.resize(transport.size() + padding);

  Payload frame;
  rte_ether_hdr ethernet{};
  ethernet.dst_addr = kOwnMac;
  ethernet.src_addr = kPeerMac;
  ethernet.ether_type =
      damage.as_ipv6 ? RTE_BE16(RTE_ETHER_TYPE_IPV6) : RTE_BE16(RTE_ETHER_TYPE_IPV4);
  append(frame, &ethernet, sizeof ethernet);
  const auto udp_length = static_cast<std::size_t>(
      static_cast<std::ptrdiff_t>(sizeof(rte_udp_hdr) + transport.size() + wire::Icrc::kSize) +
      damage.extra_bytes);
  append_l3(frame, damage, udp_length);
  const std::size_t l3_length = frame.size() - sizeof ethernet;
  append(frame, transport.data(), transport.size());

  wire::Icrc icrc;
  const std::span<const std::uint8_t> l3(frame.data() + sizeof ethernet,
                                         l3_length + wire::Bth::kSize);
  icrc.add_ip_udp_bth(l3);
  icrc.add(std::span<const std::uint8_t>(transport).subspan(wire::Bth::kSize));
  std::array<std::uint8_t, wire::Icrc::kSize> trailer{};
  wire::store_icrc(icrc.value() ^ (damage.icrc ? 0x10u : 0u), trailer);
  append(frame, trailer.data(), trailer.size());
  frame.resize(sizeof ethernet + l3_length - sizeof(rte_udp_hdr) + udp_length);

  rte_mbuf* mbuf = rte_pktmbuf_alloc(pool().get());
  if (mbuf == nullptr) {
    ADD_FAILURE() << "the pool is empty";
    std::abort();
  }
  std::memcpy(rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(frame.size())), frame.data(),
              frame.size());
  return mbuf;
}

void Rig::inject(const Packet& packet, const Damage& damage) {
  Packet addressed = packet;
  if (addressed.headers.bth.destination == wire::Qpn{}) {
    addressed.headers.bth.destination = qp_->number();
  }
  rte_mbuf* mbuf = build(addressed, damage);
  host_->receive(&mbuf, 1, now_ns_);
}

std::vector<Packet> Rig::sent_in_turn() {
  std::vector<Packet> result;
  std::array<rte_mbuf*, 32> burst{};
  const std::uint16_t count =
      host_->transmit(burst.data(), static_cast<std::uint16_t>(burst.size()), now_ns_);
  for (std::uint16_t i = 0; i < count; ++i) {
    const rte_mbuf* mbuf = burst[i];
    Payload frame(mbuf->pkt_len);
    const void* whole = rte_pktmbuf_read(mbuf, 0, mbuf->pkt_len, frame.data());
    if (whole != frame.data()) std::memcpy(frame.data(), whole, frame.size());
    rte_pktmbuf_free(burst[i]);
    const std::size_t ip_length = udp_ip_length(frame);
    if (ip_length == 0) {
      continue;  // of the host
    }
    Packet packet;
    const auto transport = std::span<const std::uint8_t>(frame).subspan(
        sizeof(rte_ether_hdr) + ip_length + sizeof(rte_udp_hdr));
    const auto ip = std::span<const std::uint8_t>(frame).subspan(sizeof(rte_ether_hdr), ip_length);
    packet.ip.assign(ip.begin(), ip.end());
    const wire::ParseResult parsed =
        wire::parse_headers(transport, transport.size(), packet.headers);
    EXPECT_EQ(parsed, wire::ParseResult::ok) << wire::to_string(parsed);
    const auto payload =
        transport.subspan(packet.headers.payload_offset, packet.headers.payload_length);
    packet.payload.assign(payload.begin(), payload.end());
    if (packet.headers.bth.destination != wire::kMulticastQpn) {
      EXPECT_EQ(packet.headers.bth.destination.value, kPeerQpn);
    }
    result.push_back(std::move(packet));
  }
  return result;
}

std::vector<Packet> Rig::sent() {
  std::vector<Packet> result;
  for (std::vector<Packet> turn = sent_in_turn(); !turn.empty(); turn = sent_in_turn()) {
    result.insert(result.end(), turn.begin(), turn.end());
  }
  return result;
}

void Rig::post_send(std::uint64_t wr_id, roce::WrOpcode opcode, std::uint32_t length,
                    std::size_t offset, std::uint32_t flags) {
  const std::array<roce::Sge, 1> list{{{.addr = va(offset), .length = length, .lkey = key()}}};
  ASSERT_EQ(qp_->post_send({.wr_id = wr_id,
                            .sg_list = list,
                            .opcode = opcode,
                            .send_flags = flags,
                            .imm_data = 0x01020304,
                            .remote_addr = 0x100000,
                            .rkey = roce::MemoryKey{0xabcdef01},
                            .ah = ah_,
                            .remote_qpn = wire::Qpn{kPeerQpn},
                            .remote_qkey = 0x22222222}),
            roce::PostResult::ok);
}

void Rig::post_recv(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
  const std::array<roce::Sge, 1> list{{{.addr = va(offset), .length = length, .lkey = key()}}};
  const roce::RecvWr wr{.wr_id = wr_id, .sg_list = list};
  ASSERT_EQ(srq_ != nullptr ? srq_->post_recv(wr) : qp_->post_recv(wr), roce::PostResult::ok);
}

std::vector<roce::Completion> Rig::completions(roce::CompletionQueue& cq) {
  std::vector<roce::Completion> result(cq.size());
  result.resize(cq.poll(result));
  return result;
}

std::vector<roce::AsyncEvent> Rig::async_events() {
  std::vector<roce::AsyncEvent> events;
  while (const auto event = engine_->poll_async_event()) {
    events.push_back(*event);
  }
  return events;
}

Packet packet(wire::Opcode opcode, std::uint32_t psn, Payload payload, bool ack_request) {
  Packet result;
  result.headers.bth.opcode = static_cast<std::uint8_t>(opcode);
  result.headers.bth.psn = wire::Psn::make(psn);
  result.headers.bth.mig_req = true;
  result.headers.bth.ack_request = ack_request;
  result.payload = std::move(payload);
  return result;
}

Packet write_packet(wire::Opcode opcode, std::uint32_t psn, wire::Reth reth, Payload payload) {
  Packet result = packet(opcode, psn, std::move(payload));
  result.headers.reth = reth;
  return result;
}

Packet datagram(wire::Opcode opcode, Payload payload, std::uint32_t qkey) {
  Packet result = packet(opcode, 0x777777, std::move(payload), false);
  result.headers.deth = {.qkey = qkey, .reserved8 = 0, .source = wire::Qpn{Rig::kPeerQpn}};
  return result;
}

Packet read_request(std::uint32_t psn, wire::Reth reth) {
  return write_packet(wire::Opcode::rc_rdma_read_request, psn, reth);
}

Packet compare_swap(std::uint32_t psn, std::uint64_t va, std::uint32_t rkey, std::uint64_t compare,
                    std::uint64_t swap) {
  Packet result = packet(wire::Opcode::rc_compare_swap, psn);
  result.headers.atomic_eth = {.va = va, .rkey = rkey, .swap_add = swap, .compare = compare};
  return result;
}

Packet fetch_add(std::uint32_t psn, std::uint64_t va, std::uint32_t rkey, std::uint64_t add) {
  Packet result = packet(wire::Opcode::rc_fetch_add, psn);
  result.headers.atomic_eth = {.va = va, .rkey = rkey, .swap_add = add, .compare = 0};
  return result;
}

Packet acknowledge(std::uint32_t psn, wire::Aeth aeth) {
  Packet result = packet(wire::Opcode::rc_acknowledge, psn, {}, false);
  result.headers.aeth = aeth;
  return result;
}

Packet ack(std::uint32_t psn, std::uint32_t msn) {
  return acknowledge(psn, wire::Aeth::ack(wire::kCreditCodeUnlimited, msn));
}

Packet nak(std::uint32_t psn, wire::NakCode code) {
  return acknowledge(psn, wire::Aeth::nak(code, 0));
}

Packet rnr_nak(std::uint32_t psn, std::uint8_t timer) {
  return acknowledge(psn, wire::Aeth::rnr_nak(timer, 0));
}

Packet read_response(wire::Opcode opcode, std::uint32_t psn, Payload payload) {
  Packet result = packet(opcode, psn, std::move(payload), false);
  result.headers.aeth = wire::Aeth::ack(wire::kCreditCodeUnlimited, 0);
  return result;
}

Packet atomic_response(std::uint32_t psn, std::uint64_t original) {
  Packet result = packet(wire::Opcode::rc_atomic_acknowledge, psn, {}, false);
  result.headers.aeth = wire::Aeth::ack(wire::kCreditCodeUnlimited, 0);
  result.headers.atomic_ack_eth.original = original;
  return result;
}

Payload pattern(std::size_t length, std::uint8_t seed) {
  Payload bytes(length);
  for (std::size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<std::uint8_t>(seed * 37u + i * 11u + (i >> 8));
  }
  return bytes;
}

}  // namespace rockhopper::test
