// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// An engine with a queue pair of any service. The input is a list of actions: packets with right
// lower headers and ICRC but any transport headers, requests, time, state changes. Memory that is
// not registered with the right must stay as it is, every request completes at most once, every
// mbuf comes back.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "apps/node/node.h"
#include "roce/engine.h"
#include "roce/lock/request.h"
#include "roce/wire/packet.h"
#include "tests/fuzz/frame.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"

namespace rockhopper::fuzz {
namespace {

using roce::QpState;
using test::Bytes;

constexpr std::uint32_t kPeerQpn = 0x000123;
constexpr std::uint32_t kMtu = 256;
constexpr std::uint32_t kLinkMtu = 1024;  ///< what a datagram may have on a link of 1500
constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::size_t kMaxActions = 400;
constexpr std::uint32_t kQueueDepth = 8;

// The memory of a run: what a peer may write, what it may read, what only we may write, and
// between them what nobody may touch.
constexpr std::size_t kMemory = 16 * 1024;
struct Place {
  std::size_t offset, length;
};
constexpr Place kShared{1024, 4096};
constexpr Place kReadable{6144, 1024};
constexpr Place kLocal{8192, 4096};
/// Of what the peer may write, where it may have locks.
constexpr std::size_t kLockBytes = 2048;
constexpr std::uint8_t kCanary = 0xc5;

class EngineRun {
 public:
  explicit EngineRun(std::span<const std::uint8_t> input);
  ~EngineRun();
  EngineRun(const EngineRun&) = delete;
  EngineRun& operator=(const EngineRun&) = delete;

  void run();

 private:
  [[nodiscard]] static roce::AddressVector address_vector() {
    return {.source = stack::IpAddress::from_ipv4(kOwnIpv4),
            .destination = stack::IpAddress::from_ipv4(kPeerIpv4)};
  }
  void bring_up();
  void act(std::uint8_t action);
  void receive_transport(std::span<const std::uint8_t> transport);
  void receive_raw();
  void receive_built();
  [[nodiscard]] std::uint8_t choose_opcode();
  void fill_headers(wire::Headers& headers);
  [[nodiscard]] Bytes fill_lock_request(wire::Headers& headers);
  void fill_lock_response(wire::Lkaeth& lkaeth);
  [[nodiscard]] std::uint64_t choose_address();
  [[nodiscard]] std::uint32_t choose_key();
  [[nodiscard]] roce::Sge choose_sge();
  void post_send();
  [[nodiscard]] roce::lock::Request choose_lock();
  void post_receive();
  void transmit();
  void poll(roce::CompletionQueue& cq, std::uint64_t& posted);
  void change_state();
  void change_regions();
  void check_memory() const;

  Input input_;
  std::unique_ptr<std::uint8_t[]> memory_;
  std::optional<roce::lock::Region> locks_;
  std::array<roce::WcStatus, 3> accesses_{};
  roce::lock::ScopeResult scope_result_{.accesses = accesses_};
  std::array<roce::lock::Word, 2> more_words_{};
  std::uint64_t now_ns_ = 1'000'000'000;
  roce::SeededRandom random_{7};
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::CompletionQueue> recv_cq_;
  std::unique_ptr<Node> node_;
  roce::ProtectionDomain pd_;
  std::array<roce::MemoryRegion, 3> regions_;
  roce::QpType type_ = roce::QpType::rc;
  roce::SharedReceiveQueue* srq_ = nullptr;
  roce::QueuePair* qp_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;  ///< UD
  std::uint64_t sends_posted_ = 0;
  std::uint64_t receives_posted_ = 0;
};

EngineRun::EngineRun(std::span<const std::uint8_t> input)
    : input_(input), memory_(new std::uint8_t[kMemory]) {
  std::fill_n(memory_.get(), kMemory, kCanary);
  const std::uint8_t settings = input_.u8();
  node_ = must(
      Node::open({.port = NoPort{.mac = kOwnMac},
                  .addresses = {{stack::IpAddress::from_ipv4(kOwnIpv4), 24}},
                  .neighbours = {{stack::IpAddress::from_ipv4(kPeerIpv4), kPeerMac}},
                  .engine = {.random = &random_,
                             .max_qp = 4,
                             .max_unacked_packets = 1u << (settings & 7),
                             .max_held_packets = 8,
                             .locks = {.snapshot_bytes = 16u << 10, .max_scope_reads = 12u << 10}},
                  .packet_pool = frame_pool()}));
  // Now and then too small, so that overruns are met.
  send_cq_ = must(roce::CompletionQueue::create((settings & 8) != 0 ? 4 : 64));
  recv_cq_ = must(roce::CompletionQueue::create((settings & 16) != 0 ? 4 : 64));
  pd_ = node_->engine().allocate_pd();
  const auto add = [this](const Place& place, std::uint32_t access) {
    return must(
        node_->engine().register_memory(pd_, memory_.get() + place.offset, place.length, access));
  };
  regions_ = {
      add(kShared, roce::kAccessAll | roce::kAccessRemoteInvalidate | roce::kAccessFlushGlobal),
      add(kReadable, roce::kAccessRemoteRead), add(kLocal, roce::kAccessLocalWrite)};
  std::memset(memory_.get() + kShared.offset, 0, kLockBytes);
  locks_.emplace(memory_.get() + kShared.offset, kLockBytes, roce::lock::Region::Config{});
  node_->engine().attach_locks(*locks_);
  constexpr std::array kTypes = {roce::QpType::rc, roce::QpType::uc, roce::QpType::ud,
                                 roce::QpType::rc};
  type_ = kTypes[settings >> 6];
  if (settings >> 6 == 3) {
    srq_ = must(node_->engine().create_srq(
        {.pd = pd_, .attributes = {.max_wr = kQueueDepth, .max_sge = 3, .srq_limit = 0}}));
  }
  qp_ = must(node_->engine().create_qp({.qp_type = type_,
                                        .pd = pd_,
                                        .send_cq = send_cq_.get(),
                                        .recv_cq = recv_cq_.get(),
                                        .srq = srq_,
                                        .max_send_wr = kQueueDepth,
                                        .max_recv_wr = kQueueDepth,
                                        .max_send_sge = 3,
                                        .max_recv_sge = 3,
                                        .max_inline_data = 64,
                                        .sq_sig_all = (settings & 32) != 0,
                                        .extended_atomics = type_ == roce::QpType::rc,
                                        .lock_execution = type_ == roce::QpType::rc}));
  if (type_ == roce::QpType::rc && (settings & 7) > 3) {
    must(qp_->set_loss_recovery({.algorithm = roce::RecoveryAlgorithm::selective_repeat,
                                 .adaptive_timeout = true,
                                 .selective_repeat = {.window = 16, .reordering = 1}}));
  }
  bring_up();
  if (type_ == roce::QpType::ud) ah_ = must(node_->engine().create_ah(pd_, address_vector()));
}

EngineRun::~EngineRun() {
  transmit();
  check_memory();
  node_.reset();
  check(rte_mempool_in_use_count(frame_pool()) == 0);
}

void EngineRun::bring_up() {
  roce::QpAttributes a;
  a.qp_access_flags = roce::kAccessAll | roce::kAccessFlushGlobal;
  a.path_mtu = roce::PathMtu::mtu_256;
  a.dest_qp_num = wire::Qpn{kPeerQpn};
  a.rq_psn = wire::Psn{0xfffff0};
  a.sq_psn = wire::Psn{0xfffff8};
  a.max_dest_rd_atomic = 3;
  a.max_rd_atomic = 3;
  a.timeout = 4;
  a.retry_cnt = 3;
  a.rnr_retry = 3;
  a.min_rnr_timer = 1;
  a.qkey = kQkey;
  a.ah_attr = address_vector();
  must(qp_->bring_up(a, roce::QpState::rts));
}

void EngineRun::run() {
  for (std::size_t i = 0; i < kMaxActions && !input_.empty(); ++i) {
    act(input_.u8());
  }
}

void EngineRun::act(std::uint8_t action) {
  switch (action % 16) {
    case 0:
      return receive_raw();
    case 7:
    case 8:
      return post_send();
    case 9:
      return post_receive();
    case 10:
    case 11:
      return transmit();
    case 12:
      now_ns_ += std::uint64_t{input_.u8()} << (input_.u8() % 24);
      return transmit();
    case 13:
      poll(*send_cq_, sends_posted_);
      return poll(*recv_cq_, receives_posted_);
    case 14:
      return change_state();
    case 15:
      return change_regions();
    default:
      return receive_built();
  }
}

void EngineRun::receive_transport(std::span<const std::uint8_t> transport) {
  // One segment, or cut where the input says so.
  const std::uint8_t cut = input_.u8();
  rte_mbuf* packet = make_packet(make_frame(transport), cut < 128 ? SIZE_MAX : cut - 127u);
  node_->host().receive(&packet, 1, now_ns_);
}

/// Transport bytes as they are, except, if the input wants it, the two numbers that no fuzzer would
/// hit: the queue pair and the PSN.
void EngineRun::receive_raw() {
  const std::uint8_t how = input_.u8();
  const auto taken = input_.take(std::min<std::size_t>(input_.u16(), 1400));
  Bytes transport(taken.begin(), taken.end());
  if (transport.size() >= wire::Bth::kSize) {
    if ((how & 1) != 0) wire::store_be24(&transport[5], qp_->number().value);
    if ((how & 2) != 0) {
      const bool response = !wire::info(transport[0]).is_request;
      const wire::Psn psn = response ? qp_->query().sq_psn - 1 : qp_->query().rq_psn;
      wire::store_be24(&transport[9], psn.value);
    }
  }
  receive_transport(transport);
}

/// One that the queue pair's service has, or nearly.
std::uint8_t EngineRun::choose_opcode() {
  const std::uint8_t choice = input_.u8();
  switch (type_) {
    case roce::QpType::rc:
    case roce::QpType::xrc_send:
    case roce::QpType::xrc_recv:
    case roce::QpType::extension_initiator:
    case roce::QpType::extension_responder:
      break;
    case roce::QpType::uc:
      return static_cast<std::uint8_t>(0x20 | choice % 0x0c);
    case roce::QpType::ud:
      return static_cast<std::uint8_t>(0x64 | choice % 2);
  }
  // More than there are, and ours; requests of locks often, as most matters behind them.
  constexpr std::uint8_t kOperations = 0x1e;
  constexpr std::array kOurs = {wire::Opcode::extended_atomic, wire::Opcode::selective_acknowledge,
                                wire::Opcode::lock_request,    wire::Opcode::lock_request,
                                wire::Opcode::lock_request,    wire::Opcode::lock_response};
  const auto code = static_cast<std::uint8_t>(choice % (kOperations + kOurs.size()));
  return code < kOperations ? code : static_cast<std::uint8_t>(kOurs[code - kOperations]);
}

void EngineRun::receive_built() {
  wire::Headers headers{};
  headers.bth.opcode = choose_opcode();
  const wire::OpcodeInfo& info = wire::info(headers.bth.opcode);
  const auto delta = static_cast<std::int8_t>(input_.u8());
  const wire::Psn base = info.is_request ? qp_->query().rq_psn : qp_->query().sq_psn - 1;
  headers.bth.psn =
      wire::Psn::make(base.value + static_cast<std::uint32_t>(
                                       delta > 100 || delta < -100 ? delta * 83'000 : delta / 8));
  headers.bth.destination = qp_->number();
  fill_headers(headers);
  Bytes payload;
  const bool lock_request = info.operation == wire::Operation::lock_request;
  if (lock_request) {
    payload = fill_lock_request(headers);
  } else if (info.operation == wire::Operation::lock_response) {
    fill_lock_response(headers.lkaeth);
  }
  std::size_t length = payload.size();
  if (info.has_payload && !lock_request) {
    const std::uint8_t how = input_.u8();
    length = how < 64 ? kMtu : how < 128 ? how - 64u : how * 3u;
    // A WRITE whose length fits, so that what comes after the check is met too.
    if (info.operation == wire::Operation::rdma_write && (how & 1) == 0) {
      headers.reth.length = static_cast<std::uint32_t>(
          info.position == wire::Position::only ? length : length + kMtu);
    }
  }
  headers.bth.pad_count = wire::pad_count(length);
  const std::size_t rest = length + headers.bth.pad_count;
  Bytes transport(wire::kHeadersMax + rest, 0x77);
  const std::size_t header_bytes = wire::emit_headers(headers, transport);
  if (header_bytes == 0) return;
  std::copy(payload.begin(), payload.end(), transport.begin() + header_bytes);
  transport.resize(header_bytes + rest);
  receive_transport(transport);
}

void EngineRun::fill_headers(wire::Headers& headers) {
  const std::uint8_t flags = input_.u8();
  headers.bth.ack_request = (flags & 1) != 0;
  headers.bth.solicited = (flags & 2) != 0;
  headers.bth.becn = (flags & 4) != 0;
  headers.bth.pkey = (flags & 0xf0) == 0xf0 ? 0x7ffe : wire::kDefaultPkey;
  headers.reth = {.va = choose_address(), .rkey = choose_key(), .length = input_.u16()};
  if ((flags & 8) != 0) headers.reth.length = input_.u32();
  headers.atomic_eth = {.va = headers.reth.va,
                        .rkey = headers.reth.rkey,
                        .swap_add = headers.reth.length,
                        .compare = flags};
  headers.aeth = {.syndrome = input_.u8(), .msn = input_.u8()};
  headers.atomic_ack_eth.original = flags;
  headers.ieth.rkey = headers.reth.rkey;
  headers.imm_dt.data = flags;
  headers.feth = {.reserved26 = 0,
                  .selectivity_level = static_cast<std::uint8_t>(flags >> 6),
                  .placement_type = static_cast<std::uint8_t>(flags & 3)};
  headers.xaeth = {.subtype = static_cast<std::uint8_t>(flags & 3),
                   .reserved24 = 0,
                   .rkey = headers.reth.rkey,
                   .va = headers.reth.va,
                   .compare = flags,
                   .compare_mask = headers.reth.length,
                   .swap_add = headers.reth.va,
                   .mask = headers.reth.length};
  // A few bits anywhere, so that some bitmaps are of what has been sent.
  headers.saeth = {};
  for (std::uint8_t bits = flags & 3; bits > 0; --bits) {
    headers.saeth.set(flags >= 0xc0 ? input_.u8() : input_.u8() % 16);
  }
  headers.deth = {.qkey = kQkey ^ ((flags & 0x70) == 0x70 ? 1u : 0u),
                  .reserved8 = 0,
                  .source = wire::Qpn{kPeerQpn}};
}

/// Its header, and the payload that its subtype has.
Bytes EngineRun::fill_lock_request(wire::Headers& headers) {
  using wire::Lketh;
  const auto word = [this](std::uint64_t address) {
    return input_.u8() < 240 ? address & ~std::uint64_t{7} : address;
  };
  const std::uint8_t tries = input_.u8();
  headers.lketh = {.subtype = static_cast<std::uint8_t>(input_.u8() % 10),
                   .flags = input_.u8(),
                   .scope_id = static_cast<std::uint16_t>(input_.u8() % 4),
                   .rkey = headers.reth.rkey,
                   .va = word(headers.reth.va),
                   .max_tries = tries < 200 ? std::uint16_t{tries} : Lketh::kTriesUnlimited,
                   .timeout = input_.u8(),
                   .reserved8 = 0,
                   .wait_us = tries % 2 == 0 ? Lketh::kWaitUnlimited : input_.u16(),
                   .owner = input_.u8(),
                   .lease_us = input_.u16(),
                   .scope_psns = static_cast<std::uint16_t>(input_.u8() % 8),
                   .reserved16 = 0,
                   .reserved32 = 0};
  Bytes payload;
  if (headers.lketh.subtype == Lketh::kAcquireSeveral) {
    for (std::uint8_t left = input_.u8() % 9; left > 0; --left) {
      const wire::LockWord more{
          .rkey = choose_key(), .shared = (left & 1) != 0, .va = word(choose_address())};
      payload.resize(payload.size() + wire::LockWord::kSize);
      more.emit(std::span<std::uint8_t, wire::LockWord::kSize>(
          &payload[payload.size() - wire::LockWord::kSize], wire::LockWord::kSize));
    }
  } else if (headers.lketh.subtype == Lketh::kAcquireForeign ||
             headers.lketh.subtype == Lketh::kReleaseForeign) {
    const wire::LockOperation operation{.compare = input_.u8(),
                                        .compare_mask = input_.u8(),
                                        .swap_add = input_.u8(),
                                        .mask = input_.u16()};
    payload.resize(wire::LockOperation::kSize);
    operation.emit(std::span<std::uint8_t, wire::LockOperation::kSize>(payload));
  }
  if (input_.u8() >= 250) payload.resize(input_.u8(), 0x77);
  return payload;
}

void EngineRun::fill_lock_response(wire::Lkaeth& lkaeth) {
  lkaeth = {.status = static_cast<wire::LockStatus>(input_.u8() % 8),
            .cause = static_cast<wire::LockCause>(input_.u8() % 9),
            .scope_id = static_cast<std::uint16_t>(input_.u8() % 4),
            .msn = input_.u8(),
            .reserved8 = 0,
            .previous_word = input_.u8(),
            .value = input_.u8()};
}

/// What a lock request that is posted says.
roce::lock::Request EngineRun::choose_lock() {
  const std::uint8_t how = input_.u8();
  more_words_[0] = {.addr = 64, .rkey = roce::MemoryKey{5}, .shared = (how & 1) != 0};
  more_words_[1] = {.addr = 72, .rkey = roce::MemoryKey{6}};
  return {.mode = static_cast<roce::lock::Mode>(how % 4),
          .flags = static_cast<std::uint8_t>(how >> 2 & 15),
          .tries = input_.u8(),
          .scope_psns = static_cast<std::uint16_t>(input_.u8() % 4),
          .more = std::span(more_words_).first((how >> 6) % 3),
          .operation = {.compare = how, .compare_mask = 255, .swap_add = 1, .mask = 128},
          .result = (how & 128) != 0 ? &scope_result_ : nullptr};
}

std::uint64_t EngineRun::choose_address() {
  const std::uint8_t kind = input_.u8();
  const std::uint16_t offset = input_.u16();
  if (kind >= 240) return input_.u64();
  const roce::MemoryRegion& region = regions_[kind % regions_.size()];
  return region.iova + offset % (region.length + 64) - (kind >= 192 ? 8 : 0);
}

std::uint32_t EngineRun::choose_key() {
  const std::uint8_t kind = input_.u8();
  const auto key = static_cast<std::uint32_t>(regions_[kind % regions_.size()].key);
  return kind >= 240 ? input_.u32() : kind >= 224 ? key ^ 0x10000 : key;
}

/// Local memory of which only the first and the last region may be written.
roce::Sge EngineRun::choose_sge() {
  const std::uint64_t addr = choose_address();
  const std::uint8_t kind = input_.u8();
  return {.addr = addr,
          .length = kind < 250 ? kind * 5u : input_.u32(),
          .lkey = roce::MemoryKey{choose_key()}};
}

void EngineRun::post_send() {
  const std::uint8_t flags = input_.u8();
  std::array<roce::Sge, 4> list;
  const std::size_t count = flags % list.size();
  for (std::size_t i = 0; i < count; ++i) {
    list[i] = choose_sge();
  }
  using enum roce::WrOpcode;
  constexpr std::array kPosted = {rdma_write,         rdma_write_with_imm,  send,
                                  send_with_imm,      send_with_inv,        rdma_read,
                                  atomic_cmp_and_swp, atomic_fetch_and_add, local_inv,
                                  lock_acquire,       lock_release,         lock_cancel};
  roce::SendWr wr{.wr_id = 1,
                  .sg_list = {list.data(), count},
                  .opcode = kPosted[input_.u8() % kPosted.size()],
                  .send_flags = static_cast<std::uint32_t>(flags >> 2) & 7u,
                  .remote_addr = std::uint64_t{input_.u8()} * 4,
                  .rkey = roce::MemoryKey{5},
                  .compare_add = 3,
                  .swap = 4,
                  .ah = ah_,
                  .remote_qpn = wire::Qpn{kPeerQpn},
                  .remote_qkey = kQkey};
  if (count > 0 && (flags & 0xe0) == 0xe0) {
    // Inline data is read from wherever the application says: it must exist.
    wr.send_flags |= roce::kSendInline;
    for (std::size_t i = 0; i < count; ++i) {
      list[i].addr = reinterpret_cast<std::uintptr_t>(memory_.get());
      list[i].length %= 40;
    }
  }
  roce::lock::Request lock;
  if (wr.opcode == lock_acquire || wr.opcode == lock_release || wr.opcode == lock_cancel) {
    lock = choose_lock();
    wr.lock = &lock;
    wr.remote_addr *= 2;  // words are aligned
    wr.sg_list = {};
  }
  if (qp_->post_send(wr) == roce::PostResult::ok) ++sends_posted_;
}

void EngineRun::post_receive() {
  std::array<roce::Sge, 4> list;
  const std::size_t count = input_.u8() % list.size();
  for (std::size_t i = 0; i < count; ++i) {
    list[i] = choose_sge();
  }
  const roce::RecvWr wr{.wr_id = 2, .sg_list = {list.data(), count}};
  if ((srq_ != nullptr ? srq_->post_recv(wr) : qp_->post_recv(wr)) == roce::PostResult::ok) {
    ++receives_posted_;
  }
}

/// Takes what the engine sends and looks at it as a receiver would.
void EngineRun::transmit() {
  std::array<rte_mbuf*, 32> burst;
  for (std::size_t rounds = 0; rounds < 64; ++rounds) {
    const std::uint16_t count =
        node_->host().transmit(burst.data(), static_cast<std::uint16_t>(burst.size()), now_ns_);
    for (std::uint16_t i = 0; i < count; ++i) {
      const Bytes frame = take_packet(burst[i]);
      const auto transport = transport_of(frame);
      if (transport.empty()) continue;
      wire::Headers headers;
      check(wire::parse_headers(transport, transport.size(), headers) == wire::ParseResult::ok);
      check(headers.payload_length <= (ah_ == nullptr ? kMtu : kLinkMtu));
      check(headers.bth.destination.value == kPeerQpn);
    }
    if (count == 0) return;
  }
  check(false);  // it goes on sending although nothing happens
}

void EngineRun::poll(roce::CompletionQueue& cq, std::uint64_t& posted) {
  std::array<roce::Completion, 8> some;
  while (const std::size_t count = cq.poll(some)) {
    check(count <= posted);
    posted -= count;
  }
}

void EngineRun::change_state() {
  roce::QpAttributes a;
  switch (input_.u8() % 8) {
    case 0:
      a.qp_state = QpState::err;
      (void)qp_->modify(a, roce::kQpState);
      break;
    case 1:
    case 2:
    case 3:
      a.qp_state = QpState::reset;
      must(qp_->modify(a, roce::kQpState));
      if (!send_cq_->overrun() && !recv_cq_->overrun()) bring_up();
      break;
    case 4:
    case 5:
      a.qp_state = QpState::sqd;
      (void)qp_->modify(a, roce::kQpState);
      break;
    default:
      a.qp_state = QpState::rts;
      (void)qp_->modify(a, roce::kQpState);
      break;
  }
}

/// Takes a region away and gives it back under another key.
void EngineRun::change_regions() {
  roce::MemoryRegion& region = regions_[input_.u8() % regions_.size()];
  must(node_->engine().deregister_memory(region.key));
  region = must(node_->engine().register_memory_iova(pd_, region.base, region.length, region.access,
                                                     region.iova));
}

void EngineRun::check_memory() const {
  for (std::size_t i = 0; i < kMemory; ++i) {
    const auto inside = [i](const Place& place) {
      return i >= place.offset && i < place.offset + place.length;
    };
    check(inside(kShared) || inside(kLocal) || memory_[i] == kCanary);
  }
}

void run(std::span<const std::uint8_t> input) { EngineRun(input).run(); }

/// Built packets of a peer that takes a lock: the bytes that receive_built() and what it calls
/// read. `variant` chooses among what they can say.
void add_locks(Bytes& input, std::uint8_t variant) {
  enum : std::uint8_t { kBuilt = 1, kTransmit = 10, kWriteOnly = 0x0a, kRead = 0x0c };
  enum : std::uint8_t { kLockRequest = 0x20, kLockResponse = 0x23 };
  enum : std::uint8_t { kWord = 64, kRecord = 128 };  // offsets
  constexpr std::uint8_t kScopePsns = 3;
  const auto add = [&](std::uint8_t opcode, std::uint8_t offset,
                       std::initializer_list<std::uint8_t> rest) {
    // PSN, flags, address in the first region, its key, length, two of AETH.
    input.insert(input.end(), {kBuilt, opcode, 0, 0, 0, 0, offset, 0, 0, 8, 0, 0});
    input.insert(input.end(), rest);
    input.push_back(0);  // in one piece
  };
  const auto add_request = [&](std::uint8_t tries, std::uint8_t subtype, std::uint8_t flags,
                               std::uint8_t psns) {
    // Id, alignment, timeout, owner, lease, PSNs; no odd payload.
    add(kLockRequest, kWord, {tries, subtype, flags, 1, 0, 10, 3, 0, 0, psns, 0});
  };
  const auto add_scope = [&](std::uint8_t tries) {
    add_request(tries, 1 + variant % 2, variant % 8, kScopePsns);
    add(kWriteOnly, kRecord, {8});
    add(kRead, kRecord, {});
    add_request(tries, 3, 0, 0);
    input.push_back(kTransmit);
  };
  add_request(254, 1, 2, 0);  // held, and released
  add_request(254, 3, 2, 0);
  input.push_back(kTransmit);
  add_scope(254);
  add(kWriteOnly, kWord, {8});  // now the word is not free
  add_scope(2);
  input.insert(input.end(), {12, 255, 12, 12, 255, 12, 13});  // until it has failed
  add(kLockResponse, kWord, {1, 0, 1, 1, 0, 9});
  input.insert(input.end(), {kTransmit, 13});
}

/// The captured packet twice, before and after a receive has been posted, then time.
Bytes make_input(const test::RocePacket& packet) {
  auto transport = packet.transport();
  transport = transport.first(transport.size() - std::min(transport.size(), wire::Icrc::kSize));
  const std::uint8_t service = packet.transport()[0] >> 5;
  Bytes input{static_cast<std::uint8_t>(service == 1 ? 1 << 6 : service == 3 ? 2 << 6 : 0)};
  const auto add_packet = [&] {
    input.insert(input.end(), {0, 3, static_cast<std::uint8_t>(transport.size() >> 8),
                               static_cast<std::uint8_t>(transport.size())});
    input.insert(input.end(), transport.begin(), transport.end());
    input.push_back(0);
  };
  input.insert(input.end(), {7, 1, 2, 0, 0, 20, 2, 0, 0});  // a request for responses to answer
  input.push_back(10);
  add_packet();
  input.insert(input.end(), {9, 1, 2, 0, 0, 200, 2});
  add_packet();
  input.insert(input.end(), {10, 12, 200, 16, 13});
  add_locks(input, static_cast<std::uint8_t>(transport.size() / 4));
  return input;
}

const FuzzTarget kTarget("engine", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
