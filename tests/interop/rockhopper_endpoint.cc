// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/rockhopper_endpoint.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>
#include <type_traits>
#include <utility>

#include <poll.h>

#include "tests/interop/rc_exchange.h"
#include "tests/support/engine_names.h"
#include "tests/support/verbs_names.h"

namespace rockhopper::interop {
namespace {

/// The value, or a Failure with the error's text.
template <typename T>
T need(Expected<T> result) {
  if (!result) throw Failure(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::uint32_t access_flags(const Rights& rights) {
  return roce::kAccessLocalWrite | (rights.write ? roce::kAccessRemoteWrite : 0u) |
         (rights.read ? roce::kAccessRemoteRead : 0u) |
         (rights.atomic ? roce::kAccessRemoteAtomic : 0u) |
         (rights.flush ? roce::kAccessFlushGlobal : 0u);
}

roce::WrOpcode opcode(OperationKind kind) {
  switch (kind) {
    case OperationKind::send:
      return roce::WrOpcode::send;
    case OperationKind::send_imm:
      return roce::WrOpcode::send_with_imm;
    case OperationKind::send_inv:
      return roce::WrOpcode::send_with_inv;
    case OperationKind::write:
      return roce::WrOpcode::rdma_write;
    case OperationKind::write_imm:
      return roce::WrOpcode::rdma_write_with_imm;
    case OperationKind::read:
      return roce::WrOpcode::rdma_read;
    case OperationKind::compare_swap:
      return roce::WrOpcode::atomic_cmp_and_swp;
    case OperationKind::atomic_write:
      return roce::WrOpcode::atomic_write;
    case OperationKind::flush:
      return roce::WrOpcode::flush;
    case OperationKind::fetch_add:
      break;
  }
  return roce::WrOpcode::atomic_fetch_and_add;
}

/// Receives and requests share a completion queue; the id tells them apart.
constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;

}  // namespace

RockhopperEndpoint::RockhopperEndpoint(std::unique_ptr<apps::Endpoint> endpoint, bool ipv4,
                                       bool statistics)
    : endpoint_(std::move(endpoint)),
      engine_(endpoint_->engine()),
      ipv4_(ipv4),
      statistics_(statistics),
      pd_(engine_.allocate_pd()) {}

RockhopperEndpoint::~RockhopperEndpoint() {
  release();
  if (statistics_) endpoint_->print_statistics(stderr);
}

Limits RockhopperEndpoint::limits() const {
  return {.path_mtu = engine_.max_path_mtu(), .max_rd_atomic = 16, .invalidate = true};
}

void RockhopperEndpoint::release() {
  destroy_queue_pair();
  for (const Key& key : keys_) {
    (void)engine_.deregister_memory(key.key);
  }
  keys_.clear();
  for (Arena* arena : {&region_, &local_, &receive_}) {
    if (arena->memory.data() != nullptr) {
      (void)engine_.deregister_memory(arena->registration.key);
      *arena = Arena{};
    }
  }
}

RockhopperEndpoint::Arena RockhopperEndpoint::make_arena(std::uint32_t bytes,
                                                         std::uint32_t access) {
  Arena arena;
  if (bytes > 0) {
    arena.memory = need(apps::PageMemory::allocate(bytes));
    arena.registration =
        need(engine_.register_memory(pd_, arena.memory.data(), arena.memory.size(), access));
  }
  return arena;
}

Address RockhopperEndpoint::open(const ConnectionConfig& config) {
  release();
  config_ = config;
  address_ = need(endpoint_->address_of_family(ipv4_));
  region_ = make_arena(config.region_bytes, access_flags(config.region_rights));
  local_ = make_arena(config.local_bytes, roce::kAccessLocalWrite);
  receive_ = make_arena(config.receive_bytes, roce::kAccessLocalWrite);
  for (std::uint32_t i = 0; i < config.keys; ++i) {
    keys_.push_back({make_key(), false});
  }
  cq_ = need(roce::CompletionQueue::create(config.send_depth + config.receive_depth));
  const roce::QpInit init{.pd = pd_,
                          .send_cq = cq_.get(),
                          .recv_cq = cq_.get(),
                          .max_send_wr = config.send_depth,
                          .max_recv_wr = config.receive_depth,
                          .max_send_sge = kMaxSges,
                          .max_recv_sge = kMaxSges};
  qp_ = need(engine_.create_qp(init));
  roce::QpAttributes attributes;
  attributes.qp_access_flags = access_flags(config.queue_pair_rights);
  need(qp_->bring_up(attributes, roce::QpState::init));
  return {.qpn = qp_->number().value, .psn = config.first_psn, .gid = address_.to_string()};
}

void RockhopperEndpoint::connect(const Address& peer, std::uint32_t path_mtu,
                                 std::uint8_t max_rd_atomic) {
  const auto destination = stack::IpAddress::parse(peer.gid);
  if (!destination) throw Failure("the peer's address '" + peer.gid + "' is none");
  roce::QpAttributes attributes;
  attributes.ah_attr = {.source = address_, .destination = *destination};
  attributes.path_mtu = static_cast<roce::PathMtu>(path_mtu);
  attributes.dest_qp_num = wire::Qpn{peer.qpn};
  attributes.rq_psn = wire::Psn{peer.psn};
  attributes.max_dest_rd_atomic = config_.max_dest_rd_atomic;
  attributes.min_rnr_timer = config_.min_rnr_timer;
  attributes.sq_psn = wire::Psn{config_.first_psn};
  attributes.timeout = config_.timeout;
  attributes.retry_cnt = config_.retry_count;
  attributes.rnr_retry = config_.rnr_retry;
  attributes.max_rd_atomic = max_rd_atomic;
  need(qp_->bring_up(attributes, roce::QpState::rts));
}

void RockhopperEndpoint::destroy_queue_pair() {
  if (qp_ != nullptr) {
    engine_.destroy_qp(qp_);
    qp_ = nullptr;
  }
}

RemoteRegion RockhopperEndpoint::remote_region() const {
  return {.addr = region_.registration.iova,
          .rkey = static_cast<std::uint32_t>(region_.registration.key),
          .length = region_.registration.length};
}

roce::Sge RockhopperEndpoint::sge(const Arena& arena, const Piece& piece, bool bad_lkey) const {
  return {.addr = arena.registration.iova + piece.offset,
          .length = piece.length,
          .lkey = bad_lkey ? roce::MemoryKey{0} : arena.registration.key};
}

void RockhopperEndpoint::post(std::span<const Request> requests) {
  for (const Request& request : requests) {
    std::array<roce::Sge, kMaxSges> list;
    for (std::uint32_t i = 0; i < request.pieces; ++i) {
      list[i] = sge(local_, request.piece[i], request.bad_lkey);
    }
    const roce::SendWr wr{.wr_id = request.id,
                          .sg_list = {list.data(), request.pieces},
                          .opcode = opcode(request.kind),
                          .send_flags = (request.fenced ? roce::kSendFence : 0u) |
                                        (request.signalled ? roce::kSendSignaled : 0u) |
                                        (request.solicited ? roce::kSendSolicited : 0u),
                          .imm_data = request.immediate,
                          .invalidate_rkey = roce::MemoryKey{request.rkey},
                          .remote_addr = request.remote_addr,
                          .rkey = roce::MemoryKey{request.rkey},
                          .compare_add = request.kind == OperationKind::fetch_add
                                             ? request.swap_or_add
                                             : request.compare,
                          .swap = request.swap_or_add,
                          .flush = {.length = request.flush_length}};
    if (const auto result = qp_->post_send(wr); result != roce::PostResult::ok) {
      throw Failure("post_send: " + std::string(to_string(result)));
    }
  }
}

void RockhopperEndpoint::post(std::span<const Receive> receives) {
  for (const Receive& receive : receives) {
    std::array<roce::Sge, kMaxSges> list;
    for (std::uint32_t i = 0; i < receive.pieces; ++i) {
      list[i] = sge(receive_, receive.piece[i], receive.bad_lkey);
    }
    const roce::RecvWr wr{.wr_id = receive.id | kReceiveBit,
                          .sg_list = {list.data(), receive.pieces}};
    if (const auto result = qp_->post_recv(wr); result != roce::PostResult::ok) {
      throw Failure("post_recv: " + std::string(to_string(result)));
    }
  }
}

std::size_t RockhopperEndpoint::poll(std::span<Completed> out) {
  (void)endpoint_->turn();
  std::array<roce::Completion, 64> completions;
  const std::size_t count =
      cq_->poll(std::span(completions).first(std::min(out.size(), completions.size())));
  for (std::size_t i = 0; i < count; ++i) {
    const roce::Completion& completion = completions[i];
    const bool success = completion.status == roce::WcStatus::success;
    out[i] = {.id = completion.wr_id & ~kReceiveBit,
              .receive = (completion.wr_id & kReceiveBit) != 0,
              .success = success,
              .status = success ? std::string()
                                : test::wc_status_name(static_cast<unsigned>(completion.status)),
              .length = completion.byte_len,
              .has_immediate = (completion.wc_flags & roce::kWcWithImm) != 0,
              .rdma_write = completion.opcode == roce::WcOpcode::recv_rdma_with_imm,
              .immediate = completion.imm_data,
              .has_invalidated = (completion.wc_flags & roce::kWcWithInv) != 0,
              .invalidated = static_cast<std::uint32_t>(completion.invalidated_rkey)};
  }
  return count;
}

void RockhopperEndpoint::wait(int descriptor, int /*timeout_ms*/) {
  // Packets come by polling only, so a sleep on the descriptor would hold them up: one turn, which
  // rests as the endpoint's idle policy says.
  if (!endpoint_->turn()) {
    pollfd waited{.fd = descriptor, .events = POLLIN, .revents = 0};
    (void)::poll(&waited, 1, 0);
  }
}

roce::MemoryKey RockhopperEndpoint::make_key() {
  const std::uint32_t access = access_flags(config_.region_rights) | roce::kAccessRemoteInvalidate;
  return need(engine_.register_memory(pd_, region_.memory.data(), region_.memory.size(), access))
      .key;
}

std::vector<std::uint32_t> RockhopperEndpoint::renew_keys(std::uint32_t count) {
  assert(count <= keys_.size());
  std::vector<std::uint32_t> rkeys;
  for (std::uint32_t i = 0; i < count; ++i) {
    Key& key = keys_[i];
    if (key.invalidated) {
      need(engine_.deregister_memory(key.key));
      key = {make_key(), false};
    }
    rkeys.push_back(static_cast<std::uint32_t>(key.key));
  }
  return rkeys;
}

void RockhopperEndpoint::on_invalidated(std::uint32_t rkey) {
  for (Key& key : keys_) {
    if (static_cast<std::uint32_t>(key.key) == rkey) key.invalidated = true;
  }
}

std::string RockhopperEndpoint::state() {
  return qp_ == nullptr ? "RESET" : std::string(to_string(qp_->state()));
}

std::vector<std::string> RockhopperEndpoint::events() {
  std::vector<std::string> names;
  while (const auto event = engine_.poll_async_event()) {
    names.push_back(test::event_type_name(event->type));
  }
  return names;
}

}  // namespace rockhopper::interop
