// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// An endpoint of dynamic connections, initiator and target, whose peer sends anything: connects
// with and without the access key, requests and responses of sessions that are open, were or never
// will be, control messages of any bytes. The input is a list of actions of both and of time.
// Memory of no region stays as it is, requests complete at most once, and once all leases are over
// the pool is full (WIRE-5, DC-15, DC-20).
#include <algorithm>
#include <array>
#include <memory>
#include <variant>
#include <vector>

#include "apps/node/node.h"
#include "dc/endpoint.h"
#include "roce/wire/packet.h"
#include "tests/fuzz/frame.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"

namespace rockhopper::fuzz {
namespace {

using test::Bytes;

constexpr std::size_t kMaxActions = 300;
constexpr std::uint32_t kContexts = 3;
constexpr std::uint32_t kQueueDepth = 8;
constexpr std::uint32_t kMtu = 256;
constexpr std::uint64_t kLeaseNs = 2'000'000;
constexpr std::size_t kMemory = 4096;
constexpr std::size_t kSharedAt = 1024;
constexpr std::size_t kShared = 2048;
constexpr std::uint8_t kCanary = 0xc5;

class DcRun {
 public:
  explicit DcRun(std::span<const std::uint8_t> input);
  void run();

 private:
  void act(std::uint8_t action);
  [[nodiscard]] dc::Connect choose_connect();
  void connect();
  void connect_data();
  void raw_connect_data();
  void request();
  void respond();
  void control();
  void raw_control();
  void post();
  void transmit();
  void learn(std::span<const std::uint8_t> transport);
  void end();
  void inject(wire::Headers& headers, std::span<const std::uint8_t> payload);
  void inject_message(const dc::Message& message, wire::Qpn to);
  void poll();
  [[nodiscard]] wire::Qpn peer_initiator() { return wire::Qpn{0xd00100u + input_.u8() % 4}; }
  [[nodiscard]] std::uint64_t choose_session();
  [[nodiscard]] std::uint32_t choose_nonce() { return 100u + input_.u8() % 8; }
  [[nodiscard]] wire::Qpn choose_destination();

  Input input_;
  std::array<std::uint8_t, kMemory> memory_;
  std::uint64_t now_ns_ = 1'000'000'000;
  roce::SeededRandom random_{7};
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<dc::Endpoint> endpoint_;
  roce::ProtectionDomain pd_;
  roce::MemoryRegion region_;
  roce::SharedReceiveQueue* srq_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
  dc::Dci* dci_ = nullptr;
  dc::Dct* dct_ = nullptr;
  std::uint64_t outstanding_ = 0;  ///< requests posted and not complete
  // What the peer has seen.
  std::vector<std::uint64_t> sessions_{0};
  std::uint32_t own_nonce_ = 0;  ///< of the initiator's last connect
  wire::Psn own_psn_{};          ///< of its last packet
  wire::Psn expected_psn_{};     ///< of the peer's last connection, roughly
};

DcRun::DcRun(std::span<const std::uint8_t> input) : input_(input) {
  memory_.fill(kCanary);
  node_ = must(Node::open({.port = NoPort{.mac = kOwnMac},
                           .addresses = {{stack::IpAddress::from_ipv4(kOwnIpv4), 24}},
                           .neighbours = {{stack::IpAddress::from_ipv4(kPeerIpv4), kPeerMac}},
                           .engine = {.random = &random_, .max_qp = 4},
                           .packet_pool = frame_pool()}));
  cq_ = must(roce::CompletionQueue::create(1024));
  pd_ = node_->engine().allocate_pd();
  region_ = must(
      node_->engine().register_memory(pd_, memory_.data() + kSharedAt, kShared, roce::kAccessAll));
  srq_ = must(node_->engine().create_srq({.pd = pd_, .attributes = {.max_wr = kQueueDepth}}));
  ah_ =
      must(node_->engine().create_ah(pd_, {.source = stack::IpAddress::from_ipv4(kOwnIpv4),
                                           .destination = stack::IpAddress::from_ipv4(kPeerIpv4)}));
  const std::uint8_t settings = input_.u8();
  dc::EndpointConfig config;
  config.sessions.contexts = kContexts;
  config.sessions.tombstones = settings % 8;
  config.sessions.per_host = (settings & 8) != 0 ? 2 : 0;
  config.sessions.tombstone_ns = 1'000'000;
  config.lease_us = static_cast<std::uint32_t>(kLeaseNs / 1000);
  config.responder_resources = 2;
  endpoint_ = must(dc::Endpoint::create(node_->engine(), config));
  dc::DciInit dci;
  dci.pd = pd_;
  dci.send_cq = cq_.get();
  dci.max_send_wr = kQueueDepth;
  dci.sq_sig_all = true;
  dci.streams = 2;
  dci.path_mtu = roce::PathMtu::mtu_256;
  dci.timeout = 4;
  dci.retry_cnt = 2;
  dci.connect_tries = 3;
  dci.lease_us = 1000;
  dci_ = must(endpoint_->create_dci(dci));
  dc::DctInit dct;
  dct.pd = pd_;
  dct.srq = srq_;
  dct.recv_cq = cq_.get();
  dct.access_flags = roce::kAccessAll;
  dct.path_mtu = roce::PathMtu::mtu_256;
  dct_ = must(endpoint_->create_dct(dct));
}

void DcRun::run() {
  for (std::size_t i = 0; i < kMaxActions && !input_.empty(); ++i) {
    act(input_.u8());
    check(endpoint_->session_count() <= kContexts);
    poll();
  }
  end();
}

void DcRun::act(std::uint8_t action) {
  switch (action % 16) {
    case 0:
    case 1:
      return connect();
    case 2:
      return connect_data();
    case 3:
    case 4:
    case 5:
    case 6:
      return request();
    case 7:
      return respond();
    case 8:
      return control();
    case 9:
      return input_.u8() % 2 == 0 ? raw_control() : raw_connect_data();
    case 10:
      return post();
    case 11: {
      const roce::Sge sge{.addr = region_.iova, .length = 600, .lkey = region_.key};
      (void)srq_->post_recv({.wr_id = 1, .sg_list = {&sge, 1}});
      return;
    }
    case 12:
      now_ns_ += std::uint64_t{input_.u8()} << (input_.u8() % 20);
      return transmit();
    case 13:
      if (dci_->state(input_.u8() % 2) == roce::QpState::err) {
        (void)dci_->reset(0);
        (void)dci_->reset(1);
      }
      return;
    default:
      return transmit();
  }
}

std::uint64_t DcRun::choose_session() {
  const std::uint8_t choice = input_.u8();
  const std::uint64_t known = sessions_[choice % sessions_.size()];
  return choice >= 248 ? input_.u64() : choice >= 240 ? known + 1 : known;
}

wire::Qpn DcRun::choose_destination() {
  const std::uint8_t choice = input_.u8();
  return choice >= 250 ? wire::Qpn{0xd00000u | choice}
                       : (choice >= 240 ? dci_->number() : dct_->number());
}

dc::Connect DcRun::choose_connect() {
  const std::uint8_t flags = input_.u8();
  expected_psn_ = wire::Psn::make(input_.u16() << 8);
  return {.full = (flags & 1) != 0,
          .data_follows = (flags & 2) != 0,
          .mtu_code = static_cast<std::uint8_t>((flags & 0x70) == 0 ? 2 : 1),
          .initiator = peer_initiator(),
          .first_psn = expected_psn_,
          .nonce = choose_nonce(),
          .lease_us = input_.u16(),
          .access_key = dct_->access_key() ^ ((flags & 0x0c) == 0x0c ? 1u : 0u),
          .incarnation = 1u + (flags >> 7),
          .stream = static_cast<std::uint8_t>(input_.u8() % 3),
          .responder_resources = input_.u8()};
}

void DcRun::connect() {
  const dc::Connect message = choose_connect();
  inject_message(message, choose_destination());
}

/// A connect with a request, most of both right.
void DcRun::connect_data() {
  constexpr std::array kOperations = {wire::Opcode::dc_send_only, wire::Opcode::dc_rdma_write_only,
                                      wire::Opcode::dc_send_only_with_immediate,
                                      wire::Opcode::dc_rdma_write_only_with_immediate,
                                      wire::Opcode::dc_send_only_with_invalidate};
  const dc::Connect message = choose_connect();
  const std::uint8_t choice = input_.u8();
  const std::uint8_t rest = input_.u8();
  const std::size_t length = (rest & 1) != 0 ? dc::carried_max(kMtu) + (rest >> 6) : rest % 64u;
  wire::Headers headers;
  headers.dcch.bytes = {};
  (void)dc::emit_message(message, headers.dcch.bytes);
  headers.dcch.set_operation(static_cast<std::uint8_t>(kOperations[choice % kOperations.size()]));
  headers.bth.opcode = static_cast<std::uint8_t>(wire::Opcode::dc_connect_data);
  headers.bth.pkey = wire::kDefaultPkey;
  headers.bth.destination = choose_destination();
  headers.bth.ack_request = true;
  headers.bth.psn = message.first_psn + (choice >= 240 ? 1 : 0);
  headers.reth = {.va = region_.iova + (choice >> 3),
                  .rkey = static_cast<std::uint32_t>(region_.key) ^ (choice >= 220 ? 1u << 20 : 0u),
                  .length = static_cast<std::uint32_t>(length)};
  headers.imm_dt.data = 7;
  headers.ieth.rkey = headers.reth.rkey;
  expected_psn_ = expected_psn_ + 1;
  inject(headers, Bytes(length, 0x77));
}

/// Any bytes behind the BTH.
void DcRun::raw_connect_data() {
  const auto bytes = input_.take(input_.u8() % 90u);
  Bytes transport(wire::Bth::kSize);
  const wire::Bth bth{.opcode = static_cast<std::uint8_t>(wire::Opcode::dc_connect_data),
                      .pad_count = static_cast<std::uint8_t>(bytes.size() % 4),
                      .destination = choose_destination()};
  bth.emit(std::span(transport).first<wire::Bth::kSize>());
  transport.insert(transport.end(), bytes.begin(), bytes.end());
  transport.resize((transport.size() + 3) / 4 * 4);
  rte_mbuf* packet = make_packet(make_frame(transport));
  node_->host().receive(&packet, 1, now_ns_);
}

/// A request of some session, most with right keys and near the expected PSN.
void DcRun::request() {
  wire::Headers headers;
  const std::uint8_t flags = input_.u8();
  headers.bth.opcode = static_cast<std::uint8_t>(0xc0 | input_.u8() % 0x1e);
  const wire::OpcodeInfo& info = wire::info(headers.bth.opcode);
  if (!info.has(wire::Header::dcsh)) return;
  headers.bth.pkey = wire::kDefaultPkey;
  headers.bth.destination = choose_destination();
  headers.bth.ack_request = (flags & 1) != 0;
  headers.bth.psn = expected_psn_ + ((flags & 6) == 6 ? input_.u8() : 0);
  headers.dcsh = {
      .form = (flags & 8) != 0,
      .stream = static_cast<std::uint8_t>(input_.u8() % 3),
      .source = peer_initiator(),
      .value = (flags & 8) != 0 ? choose_session() : wire::Dcsh::from_nonce(choose_nonce())};
  const std::size_t length = info.has_payload ? ((flags & 16) != 0 ? kMtu : input_.u8() % 64u) : 0;
  headers.reth = {
      .va = region_.iova + input_.u8() * 8u,
      .rkey = static_cast<std::uint32_t>(region_.key) ^ ((flags & 96) == 96 ? 1u << 20 : 0u),
      .length = static_cast<std::uint32_t>(length)};
  headers.atomic_eth = {
      .va = headers.reth.va, .rkey = headers.reth.rkey, .swap_add = 1, .compare = 0};
  headers.imm_dt.data = 7;
  headers.ieth.rkey = headers.reth.rkey;
  headers.feth = {.reserved26 = 0, .selectivity_level = 0, .placement_type = 1};
  headers.aeth = {.syndrome = input_.u8(), .msn = 0};
  headers.atomic_ack_eth.original = 1;
  if ((flags & 128) == 0) expected_psn_ = expected_psn_ + 1;
  inject(headers, Bytes(length, 0x77));
}

/// An answer to what the initiator has sent.
void DcRun::respond() {
  const std::uint8_t choice = input_.u8();
  if (choice % 4 == 0) {
    inject_message(dc::Accept{.mtu_code = 2,
                              .nonce = own_nonce_ + (choice >= 240 ? 1 : 0),
                              .session_id = choose_session(),
                              .expected_psn = {},
                              .lease_us = input_.u16(),
                              .responder_resources = input_.u8()},
                   dci_->number());
    return;
  }
  wire::Headers headers;
  const auto opcode = static_cast<std::uint8_t>(0xcd + input_.u8() % 6);
  headers.bth.opcode = opcode;
  headers.bth.pkey = wire::kDefaultPkey;
  headers.bth.destination = dci_->number();
  headers.bth.psn = own_psn_ - input_.u8() % 4;
  headers.dcsh = {.form = choice < 250,
                  .stream = static_cast<std::uint8_t>(input_.u8() % 3),
                  .source = wire::Qpn{0xd00200},
                  .value = choose_session()};
  headers.aeth = {.syndrome = input_.u8(), .msn = 0};
  headers.atomic_ack_eth.original = 1;
  inject(headers, Bytes(wire::info(opcode).has_payload ? input_.u8() : 0, 0x77));
}

void DcRun::control() {
  const std::uint8_t choice = input_.u8();
  switch (choice % 3) {
    case 0:
      return inject_message(
          dc::Cnak{.reason = static_cast<dc::CnakReason>(1 + input_.u8() % dc::kCnakReasons),
                   .executed_known = (choice & 64) != 0,
                   .nonce = (choice & 128) != 0 ? own_nonce_ : 0,
                   .session_id = (choice & 128) != 0 ? 0 : choose_session(),
                   .expected_psn = own_psn_ + input_.u8() % 3,
                   .backoff_us = input_.u8()},
          dci_->number());
    case 1:
      return inject_message(dc::Disconnect{.session_id = choose_session(), .next_psn = {}},
                            choose_destination());
    default:
      return inject_message(
          dc::KeepAlive{
              .answer = (choice & 64) != 0, .session_id = choose_session(), .next_psn = {}},
          choose_destination());
  }
}

/// Any bytes, behind what all messages begin with or not.
void DcRun::raw_control() {
  const auto bytes = input_.take(input_.u8() % 60u);
  Bytes message(bytes.begin(), bytes.end());
  if (message.size() >= 8 && (message[7] & 1) != 0) {
    wire::store_be32(message.data(), dc::kMagic);
    message[4] = dc::kVersion;
  }
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(wire::Opcode::dc_control);
  headers.bth.pkey = wire::kDefaultPkey;
  headers.bth.destination = choose_destination();
  inject(headers, message);
}

void DcRun::post() {
  const std::uint8_t choice = input_.u8();
  constexpr std::array kOpcodes = {roce::WrOpcode::send, roce::WrOpcode::rdma_write,
                                   roce::WrOpcode::rdma_read, roce::WrOpcode::atomic_fetch_and_add};
  const roce::Sge sge{.addr = region_.iova + 1024,
                      .length = choice % 4 == 3 ? 8u : input_.u8() * 3u,
                      .lkey = region_.key};
  roce::SendWr wr{.wr_id = 2, .sg_list = {&sge, 1}, .opcode = kOpcodes[choice % 4]};
  wr.ah = ah_;
  wr.remote_qpn = wire::Qpn{0xd00200u + (choice >> 6)};
  wr.dc_access_key = choice >> 7;
  if (dci_->post_send(wr, (choice >> 2) & 1) == roce::PostResult::ok) ++outstanding_;
}

void DcRun::inject(wire::Headers& headers, std::span<const std::uint8_t> payload) {
  headers.bth.pad_count = wire::pad_count(payload.size());
  Bytes transport(wire::kHeadersMax);
  transport.resize(wire::emit_headers(headers, transport));
  transport.insert(transport.end(), payload.begin(), payload.end());
  transport.resize(transport.size() + headers.bth.pad_count);
  rte_mbuf* packet = make_packet(make_frame(transport));
  node_->host().receive(&packet, 1, now_ns_);
}

void DcRun::inject_message(const dc::Message& message, wire::Qpn to) {
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(wire::Opcode::dc_control);
  headers.bth.pkey = wire::kDefaultPkey;
  headers.bth.destination = to;
  std::array<std::uint8_t, dc::kMessageMax> bytes;
  inject(headers, std::span(bytes).first(dc::emit_message(message, bytes)));
}

void DcRun::transmit() {
  std::array<rte_mbuf*, 32> burst;
  for (std::size_t rounds = 0; rounds < 64; ++rounds) {
    const std::uint16_t count =
        node_->host().transmit(burst.data(), static_cast<std::uint16_t>(burst.size()), now_ns_);
    for (std::uint16_t i = 0; i < count; ++i) {
      const Bytes frame = take_packet(burst[i]);
      if (const auto transport = transport_of(frame); !transport.empty()) learn(transport);
    }
    if (count == 0) return;
  }
  check(false);  // it goes on sending although nothing happens
}

/// Looks at what is sent as a peer would, and keeps what lets the next packets in.
void DcRun::learn(std::span<const std::uint8_t> transport) {
  wire::Headers headers;
  check(wire::parse_headers(transport, transport.size(), headers) == wire::ParseResult::ok);
  check(headers.payload_length <= kMtu);
  if (headers.opcode->has(wire::Header::dcch)) {
    check(headers.payload_length <= dc::carried_max(kMtu));
    const auto message = dc::parse_message(headers.dcch.bytes);
    check(message.has_value());
    const auto& connect = std::get<dc::Connect>(*message);
    check(!connect.full && connect.first_psn == headers.bth.psn);
    own_nonce_ = connect.nonce;
    own_psn_ = headers.bth.psn;
    return;
  }
  if (headers.opcode->operation != wire::Operation::dc_control) {
    check(headers.opcode->has(wire::Header::dcsh));
    if (headers.opcode->is_request) own_psn_ = headers.bth.psn;
    return;
  }
  const auto message =
      dc::parse_message(transport.subspan(headers.payload_offset, headers.payload_length));
  check(message.has_value());
  if (const auto* accept = std::get_if<dc::Accept>(&*message)) {
    check(accept->session_id != 0);
    sessions_.push_back(accept->session_id);
    expected_psn_ = accept->expected_psn;
  } else if (const auto* connect = std::get_if<dc::Connect>(&*message)) {
    own_nonce_ = connect->nonce;
  }
}

void DcRun::poll() {
  std::array<roce::Completion, 16> some;
  while (const std::size_t count = cq_->poll(some)) {
    for (std::size_t i = 0; i < count; ++i) {
      if (some[i].wr_id == 2) {
        check(outstanding_ > 0);
        --outstanding_;
      }
    }
  }
}

void DcRun::end() {
  transmit();
  for (unsigned i = 0; i < 64 && (endpoint_->session_count() > 0 || outstanding_ > 0); ++i) {
    now_ns_ += kLeaseNs;
    transmit();
    poll();
  }
  check(endpoint_->session_count() == 0);
  check(dct_->sessions() == 0);
  check(outstanding_ == 0);
  for (std::size_t i = 0; i < kMemory; ++i) {
    check((i >= kSharedAt && i < kSharedAt + kShared) || memory_[i] == kCanary);
  }
  endpoint_.reset();
  check(node_->engine().destroy_srq(srq_).has_value());
  node_.reset();
  check(rte_mempool_in_use_count(frame_pool()) == 0);
}

void run(std::span<const std::uint8_t> input) { DcRun(input).run(); }

/// A connection, whose connect has a request with it or not, then the captured packet's bytes as
/// actions.
Bytes make_input(const test::RocePacket& packet) {
  constexpr std::array<std::uint8_t, 21> kPlain = {0, 0,  0, 1, 0,  0, 0, 0, 0, 0, 0,
                                                   0, 14, 3, 9, 10, 0, 0, 1, 8, 14};
  constexpr std::array<std::uint8_t, 21> kWithData = {0, 2, 0, 1,  0, 0, 0, 0, 0, 0, 0,
                                                      1, 8, 0, 14, 3, 9, 4, 0, 0, 14};
  const auto transport = packet.transport();
  const auto& opening = transport.size() % 8 == 0 ? kWithData : kPlain;
  Bytes input(opening.size() + transport.size());
  std::copy(transport.begin(), transport.end(), std::ranges::copy(opening, input.begin()).out);
  return input;
}

const FuzzTarget kTarget("dc", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
