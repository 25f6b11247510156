// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/engine.h"
#include "roce/wire/packet.h"
#include "stack/mbuf_pool.h"

namespace rockhopper::test {

using Payload = std::vector<std::uint8_t>;

/// One RoCEv2 packet of a connection, as the test sends it or has seen it sent.
struct Packet {
  wire::Headers headers{};
  Payload payload;
  Payload ip;  ///< of a packet sent: its IP header

  [[nodiscard]] wire::Opcode opcode() const {
    return static_cast<wire::Opcode>(headers.bth.opcode);
  }
  [[nodiscard]] std::uint32_t psn() const { return headers.bth.psn.value; }
};
void PrintTo(const Packet& packet, std::ostream* out);

/// How an injected packet may differ from a right one below the transport headers.
struct Damage {
  bool icrc = false;
  bool source_address = false;
  bool destination_address = false;
  bool as_ipv6 = false;                         ///< right headers, the addresses' IPv6 counterparts
  std::optional<stack::IpAddress> destination;  ///< in place of the right one, same family
  std::optional<std::uint8_t> opcode;           ///< in place of the right one
  std::optional<std::uint8_t> version;
  std::optional<std::uint16_t> pkey;
  std::optional<std::uint8_t> pad_count;
  std::uint8_t traffic_class = 0;
  std::int32_t extra_bytes = 0;  ///< behind the ICRC, or cut off when negative
};

/// Attributes of the connection under test; the defaults make everything possible.
struct ConnectionOptions {
  roce::QpType qp_type = roce::QpType::rc;
  roce::PathMtu path_mtu = roce::PathMtu::mtu_256;
  std::uint32_t access = roce::kAccessAll;
  std::uint32_t qkey = 0x11111111;
  std::uint32_t sq_psn = 0x001000;
  std::uint32_t rq_psn = 0x020000;
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t max_dest_rd_atomic = 4;
  std::uint8_t timeout = 10;  ///< 4.19 ms
  std::uint8_t retry_cnt = 3;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;  ///< 0.64 ms
  std::uint32_t max_send_wr = 16;
  std::uint32_t max_recv_wr = 16;
  std::uint32_t srq_max_wr = 0;  ///< not 0: queue pairs share the rig's SRQ, of so many requests
  std::uint32_t max_sge = 4;
  std::uint32_t max_inline = 64;
  bool sq_sig_all = true;
  bool extended_atomics = false;
  bool nak_reserved_opcodes = true;
  bool priority_tags = false;
  roce::CnpConfig cnp{};
  roce::EndToEndCredits credits{};
  roce::RetransmissionSchedule retransmissions{};
  std::uint64_t line_rate = 0;
  bool lock_execution = false;
  roce::lock::ServiceConfig locks{};
  std::uint32_t max_held_packets = 1024;
  std::uint32_t max_qp = 1024;
  std::uint32_t cq_capacity = 64;
  roce::QpState state = roce::QpState::rts;
  std::vector<std::uint16_t> pkeys = {wire::kDefaultPkey};  ///< the port's P_Key table
  std::uint16_t pkey_index = 0;
  std::uint16_t link_mtu = 9000;
  stack::Notifier* async_notifier = nullptr;
  roce::Persistence* persistence = nullptr;
  stack::IpAddress peer = stack::IpAddress::from_ipv4(0x0a000002);  ///< whose MAC the host knows
};

/// One engine whose only peer is the test: packets go in one by one, what it sends comes out. It is
/// put together by hand and not a Node, which stands above what is tested here.
class Rig {
 public:
  static constexpr std::uint32_t kPeerQpn = 0x000123;
  static constexpr std::size_t kMemoryBytes = 64 * 1024;

  explicit Rig(const ConnectionOptions& options = {}, std::uint32_t max_unacked_packets = 128);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  [[nodiscard]] roce::Engine& engine() { return *engine_; }
  [[nodiscard]] stack::Host& host() { return *host_; }
  [[nodiscard]] roce::QueuePair& qp() { return *qp_; }
  [[nodiscard]] roce::SharedReceiveQueue& srq() { return *srq_; }
  [[nodiscard]] roce::ProtectionDomain pd() const { return pd_; }
  [[nodiscard]] roce::CompletionQueue& send_cq() { return *send_cq_; }
  [[nodiscard]] roce::CompletionQueue& recv_cq() { return *recv_cq_; }
  [[nodiscard]] const roce::EngineCounters& counters() const { return engine_->counters(); }
  [[nodiscard]] std::uint64_t drops(roce::DropReason reason) const;

  /// Makes another queue pair on the same completion queues, in RESET.
  [[nodiscard]] roce::QueuePair& make_qp(const ConnectionOptions& options);
  /// Takes a queue pair from RESET to `options.state`.
  void bring_up(roce::QueuePair& qp, const ConnectionOptions& options);
  [[nodiscard]] roce::QpAttributes attributes(const ConnectionOptions& options) const;

  // Datagrams: an address handle of the peer, made with UD queue pairs.
  [[nodiscard]] roce::AddressHandle* ah() { return ah_; }
  [[nodiscard]] roce::AddressVector address_vector(const stack::IpAddress& peer) const;
  [[nodiscard]] roce::AddressHandle& make_ah(const roce::AddressVector& av);
  [[nodiscard]] static stack::IpAddress own_ipv6();
  [[nodiscard]] static stack::IpAddress peer_ipv6();

  // Memory: one buffer, registered with all rights; the test may register more.
  [[nodiscard]] std::uint8_t* memory() { return memory_.data(); }
  [[nodiscard]] std::uint64_t va(std::size_t offset = 0) const;
  [[nodiscard]] roce::MemoryKey key() const { return region_.key; }
  [[nodiscard]] std::uint32_t rkey() const { return static_cast<std::uint32_t>(region_.key); }
  /// Of no region.
  [[nodiscard]] roce::MemoryKey invalid_key() const { return roce::MemoryKey{rkey() ^ 1u << 31}; }
  [[nodiscard]] roce::MemoryRegion add_region(std::size_t offset, std::size_t length,
                                              std::uint32_t access);
  [[nodiscard]] Payload memory_at(std::size_t offset, std::size_t length) const;
  /// True when no byte outside [offset, offset + length) has changed since the start.
  [[nodiscard]] bool untouched_outside(std::size_t offset, std::size_t length) const;

  // Packets to the engine.
  void inject(const Packet& packet, const Damage& damage = {});
  [[nodiscard]] rte_mbuf* build(const Packet& packet, const Damage& damage = {});
  /// Everything the engine sends now.
  [[nodiscard]] std::vector<Packet> sent();
  /// What one call to transmit() of the engine gives.
  [[nodiscard]] std::vector<Packet> sent_in_turn();

  // Time.
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  void advance(std::uint64_t by_ns) { now_ns_ += by_ns; }

  // Requests and completions.
  [[nodiscard]] roce::PostResult post(const roce::SendWr& wr) { return qp_->post_send(wr); }
  /// A request on the rig's own memory: `length` bytes at `offset`, far address `remote`.
  void post_send(std::uint64_t wr_id, roce::WrOpcode opcode, std::uint32_t length,
                 std::size_t offset = 0, std::uint32_t flags = 0);
  /// To the SRQ if there is one.
  void post_recv(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0);
  [[nodiscard]] std::vector<roce::Completion> completions(roce::CompletionQueue& cq);
  [[nodiscard]] std::vector<roce::Completion> send_completions() { return completions(*send_cq_); }
  [[nodiscard]] std::vector<roce::Completion> recv_completions() { return completions(*recv_cq_); }
  [[nodiscard]] std::vector<roce::AsyncEvent> async_events();

 private:
  std::vector<std::uint8_t> memory_;
  std::vector<std::uint8_t> original_;
  std::unique_ptr<stack::Host> host_;
  roce::SeededRandom random_{20261121};
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::CompletionQueue> recv_cq_;
  std::unique_ptr<roce::Engine> engine_;
  roce::ProtectionDomain pd_;
  roce::MemoryRegion region_;
  roce::SharedReceiveQueue* srq_ = nullptr;
  roce::QueuePair* qp_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
  std::uint64_t now_ns_ = 5'000'000'000;
};

/// What modify() needs for each step up, by service.
struct StepMasks {
  std::uint32_t init, rtr, rts;
};
[[nodiscard]] StepMasks step_masks(roce::QpType type);

// Packets as a peer sends them. PSNs are absolute.

[[nodiscard]] Packet packet(wire::Opcode opcode, std::uint32_t psn, Payload payload = {},
                            bool ack_request = true);
[[nodiscard]] Packet write_packet(wire::Opcode opcode, std::uint32_t psn, wire::Reth reth,
                                  Payload payload = {});
/// A datagram as kPeerQpn sends it, with the Q_Key that queue pairs have by default.
[[nodiscard]] Packet datagram(wire::Opcode opcode, Payload payload,
                              std::uint32_t qkey = ConnectionOptions{}.qkey);
[[nodiscard]] Packet read_request(std::uint32_t psn, wire::Reth reth);
[[nodiscard]] Packet compare_swap(std::uint32_t psn, std::uint64_t va, std::uint32_t rkey,
                                  std::uint64_t compare, std::uint64_t swap);
[[nodiscard]] Packet fetch_add(std::uint32_t psn, std::uint64_t va, std::uint32_t rkey,
                               std::uint64_t add);
[[nodiscard]] Packet acknowledge(std::uint32_t psn, wire::Aeth aeth);
[[nodiscard]] Packet ack(std::uint32_t psn, std::uint32_t msn = 0);
[[nodiscard]] Packet nak(std::uint32_t psn, wire::NakCode code);
[[nodiscard]] Packet rnr_nak(std::uint32_t psn, std::uint8_t timer);
[[nodiscard]] Packet read_response(wire::Opcode opcode, std::uint32_t psn, Payload payload);
[[nodiscard]] Packet atomic_response(std::uint32_t psn, std::uint64_t original);

/// `length` bytes that depend on `seed` and their place.
[[nodiscard]] Payload pattern(std::size_t length, std::uint8_t seed = 1);

// What the engine should send.

MATCHER_P2(IsAck, psn, msn, "") {
  return arg.opcode() == wire::Opcode::rc_acknowledge && arg.psn() == psn &&
         arg.headers.aeth.kind() == wire::AethKind::ack && arg.headers.aeth.msn == msn;
}
MATCHER_P2(IsNak, psn, code, "") {
  return arg.opcode() == wire::Opcode::rc_acknowledge && arg.psn() == psn &&
         arg.headers.aeth.kind() == wire::AethKind::nak && arg.headers.aeth.nak_code() == code;
}
MATCHER_P2(IsRnrNak, psn, timer, "") {
  return arg.opcode() == wire::Opcode::rc_acknowledge && arg.psn() == psn &&
         arg.headers.aeth.kind() == wire::AethKind::rnr_nak && arg.headers.aeth.timer() == timer;
}
/// A received message of `length` bytes.
MATCHER_P2(Received, wr_id, length, "") {
  return arg.wr_id == wr_id && arg.status == roce::WcStatus::success && arg.byte_len == length;
}
MATCHER_P2(IsPacket, opcode, psn, "") { return arg.opcode() == opcode && arg.psn() == psn; }
MATCHER_P3(IsResponse, opcode, psn, payload, "") {
  return arg.opcode() == opcode && arg.psn() == psn && arg.payload == payload;
}
MATCHER_P2(IsAtomicAck, psn, original, "") {
  return arg.opcode() == wire::Opcode::rc_atomic_acknowledge && arg.psn() == psn &&
         arg.headers.atomic_ack_eth.original == original;
}
MATCHER_P2(Completed, wr_id, status, "") { return arg.wr_id == wr_id && arg.status == status; }

}  // namespace rockhopper::test
