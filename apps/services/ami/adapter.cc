// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/adapter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "apps/services/ami/lane_port.h"

namespace rockhopper::ami {
namespace {

constexpr std::uint32_t kMaxImmediate = 768;
static_assert(MessageHeader::kSize + kMaxImmediate <= Batch::kMaxBytes);
/// Send requests that a peer's queue pair, or an initiator of the pool, has room for.
constexpr std::uint32_t kSendWr = 128;
constexpr std::uint8_t kRdAtomic = 16;

}  // namespace

Adapter::Adapter(roce::Engine& engine, dc::Endpoint* endpoint, const AdapterConfig& config)
    : engine_(engine), endpoint_(endpoint), config_(config), pd_(engine.allocate_pd()) {}

Expected<std::unique_ptr<Adapter>> Adapter::create(roce::Engine& engine, dc::Endpoint* endpoint,
                                                   const AdapterConfig& config) {
  if (config.transfers == 0 || config.transfers > 1u << 16) {
    return fail(ErrorCode::invalid_argument, "an adapter remembers 1 to 65536 transfers");
  }
  if (config.immediate_bytes < kMaxHeaderBytes || config.immediate_bytes > kMaxImmediate) {
    return fail(ErrorCode::invalid_argument, "immediate bytes are {} to {}", kMaxHeaderBytes,
                kMaxImmediate);
  }
  auto adapter = std::unique_ptr<Adapter>(new Adapter(engine, endpoint, config));
  ROCKHOPPER_TRY(adapter->set_up());
  return adapter;
}

Expected<void> Adapter::set_up() {
  stride_ = MessageHeader::kSize + config_.immediate_bytes;
  transfer_bytes_.resize(config_.transfers * stride_);
  ROCKHOPPER_TRY(auto region,
                 engine_.register_memory(pd_, transfer_bytes_.data(), transfer_bytes_.size(), 0));
  transfer_key_ = region.key;
  transfers_ = std::make_unique<TransferTable>(config_.transfers, transfer_bytes_.data(), stride_);
  send_room_ = endpoint_ == nullptr ? 1 : config_.dcis * kSendWr;
  ROCKHOPPER_TRY(send_cq_, roce::CompletionQueue::create(send_room_));
  if (endpoint_ == nullptr) return {};
  const auto on_turn = [this](dc::PoolTarget& target) {
    drain(*static_cast<DcTarget&>(target).peer);
  };
  ROCKHOPPER_TRY(pool_, dc::DciPool::create(*endpoint_,
                                            {.pd = pd_,
                                             .send_cq = send_cq_.get(),
                                             .max_send_wr = kSendWr,
                                             .max_send_sge = 2,
                                             .max_inline_data = Batch::kMaxBytes,
                                             .path_mtu = config_.path_mtu,
                                             .max_rd_atomic = kRdAtomic,
                                             .timeout = config_.timeout,
                                             .retry_cnt = config_.retry_cnt},
                                            {.dcis = config_.dcis}, on_turn));
  return {};
}

Adapter::~Adapter() {
  for (const auto& peer : peers_) {
    peer->waiting.clear();
    peer->awaiting.clear();
  }
  to_drain_.clear();
  watched_.clear();
  for (const auto& port : ports_) port->reading.clear();
  for (const auto& peer : peers_) {
    peer->target.reset();
    if (peer->ah != nullptr) engine_.destroy_ah(peer->ah);
  }
  peers_.clear();
  pool_.reset();
  for (const auto& port : ports_) {
    if (port->dct != nullptr) endpoint_->destroy_dct(port->dct);
    if (port->srq != nullptr) static_cast<void>(engine_.destroy_srq(port->srq));
    for (const roce::MemoryKey key : {port->buffers_key, port->rendezvous_key}) {
      if (key != roce::MemoryKey{}) static_cast<void>(engine_.deregister_memory(key));
    }
  }
  static_cast<void>(engine_.deregister_memory(transfer_key_));
}

Expected<Lane*> Adapter::add_lane(const LaneConfig& config) {
  if (!std::has_single_bit(config.fifo.slots) || config.fifo.slots < 2 ||
      config.fifo.slots > InjectionFifo<>::kMaxSlots) {
    return fail(ErrorCode::invalid_argument, "an injection FIFO has 2 to {} slots, a power of two",
                InjectionFifo<>::kMaxSlots);
  }
  if (config.fifo.immediate_bytes < kMaxHeaderBytes ||
      config.fifo.immediate_bytes > config_.immediate_bytes) {
    return fail(ErrorCode::invalid_argument, "a slot has {} to {} immediate bytes", kMaxHeaderBytes,
                config_.immediate_bytes);
  }
  if (config.receive_buffers == 0 || config.rendezvous_buffers == 0) {
    return fail(ErrorCode::invalid_argument, "a lane needs buffers for what it receives");
  }
  auto port = std::make_unique<LanePort>(config);
  port->index = static_cast<std::uint32_t>(ports_.size());
  ports_.push_back(std::move(port));
  ROCKHOPPER_TRY(set_up(*ports_.back()));
  return &ports_.back()->lane;
}

Expected<void> Adapter::set_up(LanePort& port) {
  const LaneConfig& config = port.lane.config;
  port.buffer_bytes = static_cast<std::uint32_t>(
      MessageHeader::kSize + std::max<std::size_t>(config.eager_bytes, kMaxHeaderBytes));
  port.buffers.resize(std::size_t{port.buffer_bytes} * config.receive_buffers);
  port.lengths.resize(config.receive_buffers);
  ROCKHOPPER_TRY(auto buffers,
                 engine_.register_memory(pd_, port.buffers.data(), port.buffers.size(),
                                         roce::kAccessLocalWrite));
  port.buffers_key = buffers.key;

  port.rendezvous_bytes.resize(std::size_t{config.max_message_bytes} * config.rendezvous_buffers);
  ROCKHOPPER_TRY(auto rendezvous,
                 engine_.register_memory(pd_, port.rendezvous_bytes.data(),
                                         port.rendezvous_bytes.size(), roce::kAccessLocalWrite));
  port.rendezvous_key = rendezvous.key;
  port.rendezvous.resize(config.rendezvous_buffers);
  for (std::uint32_t i = 0; i < config.rendezvous_buffers; ++i) {
    port.rendezvous[i].bytes =
        port.rendezvous_bytes.data() + std::size_t{i} * config.max_message_bytes;
    port.rendezvous_free.push_back(i);
  }

  ROCKHOPPER_TRY(port.recv_cq, roce::CompletionQueue::create(config.receive_buffers));
  ROCKHOPPER_TRY(port.srq,
                 engine_.create_srq({.pd = pd_, .attributes = {.max_wr = config.receive_buffers}}));
  if (endpoint_ == nullptr) return {};
  ROCKHOPPER_TRY(port.dct, endpoint_->create_dct({.pd = pd_,
                                                  .srq = port.srq,
                                                  .recv_cq = port.recv_cq.get(),
                                                  .access_flags = roce::kAccessAll,
                                                  .path_mtu = config_.path_mtu}));
  return {};
}

LanePort& Adapter::port_of(const Lane& lane) const {
  return **std::find_if(ports_.begin(), ports_.end(),
                        [&](const auto& port) { return &port->lane == &lane; });
}

const dc::Dct& Adapter::target(const Lane& lane) const { return *port_of(lane).dct; }

Expected<Peer*> Adapter::make_peer(LanePort& port, EndpointId id) {
  if (id >= port.peers.size()) {
    return fail(ErrorCode::invalid_argument, "peer {}: the lane has room for 0 to {}", id,
                port.peers.size() - 1);
  }
  if (port.peers[id] != nullptr) {
    return fail(ErrorCode::invalid_argument, "peer {} is there already", id);
  }
  auto peer = std::make_unique<Peer>(port, id);
  peer->index = static_cast<std::uint32_t>(peers_.size());
  peers_.push_back(std::move(peer));
  return peers_.back().get();
}

Expected<void> Adapter::add_peer(Lane& lane, EndpointId id, const dc::TargetAddress& address) {
  if (endpoint_ == nullptr) {
    return fail(ErrorCode::invalid_argument, "the adapter was made without dynamic connections");
  }
  LanePort& port = port_of(lane);
  ROCKHOPPER_TRY(auto ah, engine_.create_ah(pd_, address.av));
  auto peer = make_peer(port, id);
  if (!peer) {
    engine_.destroy_ah(ah);
    return tl::make_unexpected(peer.error());
  }
  (*peer)->ah = ah;
  (*peer)->target.emplace(**peer, *ah, address);
  (*peer)->route = std::make_unique<DcRoute>(*pool_, *(*peer)->target);
  port.peers[id] = *peer;
  return {};
}

roce::QpInit Adapter::qp_init(const Lane& lane) const {
  const LanePort& port = port_of(lane);
  roce::QpInit init;
  init.pd = pd_;
  init.send_cq = send_cq_.get();
  init.recv_cq = port.recv_cq.get();
  init.srq = port.srq;
  init.max_send_wr = kSendWr;
  init.max_recv_wr = 0;
  init.max_send_sge = 2;
  init.max_inline_data = Batch::kMaxBytes;
  return init;
}

Expected<void> Adapter::add_peer(Lane& lane, EndpointId id, roce::QueuePair& qp) {
  LanePort& port = port_of(lane);
  send_room_ += kSendWr;
  ROCKHOPPER_TRY(send_cq_->resize(send_room_));
  ROCKHOPPER_TRY(auto peer, make_peer(port, id));
  peer->route = std::make_unique<RcRoute>(qp);
  port.peers[id] = peer;
  return {};
}

Expected<void> Adapter::open(Lane& lane) {
  LanePort& port = port_of(lane);
  for (std::uint32_t i = 0; i < lane.config.receive_buffers; ++i) post_receive(port, i);
  return {};
}

void Adapter::post_receive(LanePort& port, std::uint32_t buffer) {
  const roce::Sge to{reinterpret_cast<std::uintptr_t>(port.buffer(buffer)), port.buffer_bytes,
                     port.buffers_key};
  // It has room for all of them.
  static_cast<void>(port.srq->post_recv({.wr_id = buffer, .sg_list = {&to, 1}}));
}

bool Adapter::progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  bool worked = poll_sends();
  for (const auto& port : ports_) worked = poll_receives(*port) || worked;
  for (const auto& port : ports_) worked = take_handled(*port) || worked;
  if (pool_ != nullptr) pool_->progress();
  // Before what waits in front of it: a flood of puts would leave no room ever.
  for (const auto& port : ports_) read_payloads(*port);
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    worked = take_descriptors(*ports_[(first_port_ + i) % ports_.size()]) || worked;
  }
  if (++first_port_ >= ports_.size()) first_port_ = 0;
  DrainList to_drain;
  to_drain.swap(to_drain_);
  while (!to_drain.empty()) {
    Peer& peer = to_drain.front();
    to_drain.pop_front();
    drain(peer);
  }
  if (now_ns >= next_probe_ns_ && watches()) probe(now_ns);
  return worked;
}

std::uint64_t Adapter::next_deadline_ns() const { return watches() ? next_probe_ns_ : UINT64_MAX; }

bool Adapter::watches() const {
  return !watched_.empty() || std::any_of(ports_.begin(), ports_.end(), [](const auto& port) {
    return port->lane.watches.any();
  });
}

void Adapter::visit_counters(void (*visit)(void*, const char*, std::uint64_t),
                             void* context) const {
#define X(name, text) visit(context, #name, counters_.name.value());
  ROCKHOPPER_AMI_COUNTERS(X)
#undef X
}

void Adapter::describe_counters(void (*visit)(void*, const char*, const char*), void* context) {
#define X(name, text) visit(context, #name, text);
  ROCKHOPPER_AMI_COUNTERS(X)
#undef X
}

}  // namespace rockhopper::ami
