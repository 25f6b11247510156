// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/adapter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "apps/services/ami/adapter_parts.h"
#include "apps/services/ami/completion_id.h"
#include "apps/services/ami/receiver.h"
#include "apps/services/ami/sender.h"

namespace rockhopper::ami {
namespace {

constexpr std::uint32_t kMaxImmediate = 768;
static_assert(MessageHeader::kSize + kMaxImmediate <= Batch::kMaxBytes);
/// Send requests that a peer's queue pair, or an initiator of the pool, has room for.
constexpr std::uint32_t kSendWr = 128;
constexpr std::uint8_t kRdAtomic = 16;

}  // namespace

Adapter::Adapter(roce::Engine& engine, dc::Endpoint* endpoint, const AdapterConfig& config)
    : engine_(engine),
      endpoint_(endpoint),
      pd_(engine),
      parts_(new AdapterParts{.config = config}),
      sender_(std::make_unique<Sender>(*parts_)),
      receiver_(std::make_unique<Receiver>(*parts_, *sender_)) {}

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
  const AdapterConfig& config = parts_->config;
  ROCKHOPPER_TRY(sender_->set_up(engine_, pd_.get()));
  send_room_ = endpoint_ == nullptr ? 1 : config.dcis * kSendWr;
  ROCKHOPPER_TRY(send_cq_, roce::CompletionQueue::create(send_room_));
  if (endpoint_ == nullptr) return {};
  const auto on_turn = [this](dc::PoolTarget& target) {
    sender_->drain(*static_cast<DcTarget&>(target).peer);
  };
  ROCKHOPPER_TRY(pool_, dc::DciPool::create(*endpoint_,
                                            {.pd = pd_.get(),
                                             .send_cq = send_cq_.get(),
                                             .max_send_wr = kSendWr,
                                             .max_send_sge = 2,
                                             .max_inline_data = Batch::kMaxBytes,
                                             .path_mtu = config.path_mtu,
                                             .max_rd_atomic = kRdAtomic,
                                             .timeout = config.timeout,
                                             .retry_cnt = config.retry_cnt},
                                            {.dcis = config.dcis}, on_turn));
  return {};
}

Adapter::~Adapter() {
  sender_.reset();
  for (const auto& port : parts_->ports) {
    port->reading.clear();
  }
  parts_->peers.clear();  // before the pool that their targets are of
  pool_.reset();
}

Expected<Lane*> Adapter::add_lane(const LaneConfig& config) {
  if (!std::has_single_bit(config.fifo.slots) || config.fifo.slots < 2 ||
      config.fifo.slots > InjectionFifo<>::kMaxSlots) {
    return fail(ErrorCode::invalid_argument, "an injection FIFO has 2 to {} slots, a power of two",
                InjectionFifo<>::kMaxSlots);
  }
  if (config.fifo.immediate_bytes < kMaxHeaderBytes ||
      config.fifo.immediate_bytes > parts_->config.immediate_bytes) {
    return fail(ErrorCode::invalid_argument, "a slot has {} to {} immediate bytes", kMaxHeaderBytes,
                parts_->config.immediate_bytes);
  }
  if (config.receive_buffers == 0 || config.rendezvous_buffers == 0) {
    return fail(ErrorCode::invalid_argument, "a lane needs buffers for what it receives");
  }
  auto port = std::make_unique<LanePort>(config, static_cast<std::uint32_t>(parts_->ports.size()));
  ROCKHOPPER_TRY(receiver_->set_up(*port, engine_, endpoint_, pd_.get()));
  parts_->ports.push_back(std::move(port));
  return &parts_->ports.back()->lane;
}

LanePort& Adapter::port_of(const Lane& lane) const {
  return **std::find_if(parts_->ports.begin(), parts_->ports.end(),
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
  const auto index = static_cast<std::uint32_t>(parts_->peers.size());
  parts_->peers.push_back(std::make_unique<Peer>(port, id, index));
  return parts_->peers.back().get();
}

Expected<void> Adapter::add_peer(Lane& lane, EndpointId id, const dc::TargetAddress& address) {
  if (endpoint_ == nullptr) {
    return fail(ErrorCode::invalid_argument, "the adapter was made without dynamic connections");
  }
  LanePort& port = port_of(lane);
  ROCKHOPPER_TRY(auto ah, roce::own(engine_, engine_.create_ah(pd_.get(), address.av)));
  ROCKHOPPER_TRY(Peer * peer, make_peer(port, id));
  peer->ah = std::move(ah);
  peer->target.emplace(*peer, *peer->ah, address);
  peer->route = std::make_unique<DcRoute>(*pool_, *peer->target);
  port.peers[id] = peer;
  return {};
}

roce::QpInit Adapter::qp_init(const Lane& lane) const {
  const LanePort& port = port_of(lane);
  roce::QpInit init;
  init.pd = pd_.get();
  init.send_cq = send_cq_.get();
  init.recv_cq = port.recv_cq.get();
  init.srq = port.srq.get();
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
  Receiver::open(port_of(lane));
  return {};
}

void Adapter::close(Lane& lane) {
  LanePort& port = port_of(lane);
  if (!std::exchange(port.closed, true)) port.arrive({.kind = Arrival::Kind::closed});
  for (Peer* peer : port.peers) {
    if (peer != nullptr) sender_->end_all(*peer, Status::canceled);
  }
}

bool Adapter::idle() const { return sender_->idle(); }

// A turn.

bool Adapter::progress(std::uint64_t now_ns) {
  const auto& ports = parts_->ports;
  parts_->now_ns = now_ns;
  bool worked = poll_sends();
  for (const auto& port : ports) {
    worked = receiver_->poll(*port) || worked;
  }
  for (const auto& port : ports) {
    worked = receiver_->take_handled(*port) || worked;
  }
  if (pool_ != nullptr) pool_->progress();
  // Before what waits in front of it: a flood of puts would leave no room ever.
  for (const auto& port : ports) {
    receiver_->read_payloads(*port);
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    worked = sender_->take_descriptors(*ports[(first_port_ + i) % ports.size()]) || worked;
  }
  if (++first_port_ >= ports.size()) first_port_ = 0;
  sender_->drain_all();
  sender_->signs().ask([this](Peer& peer) { sender_->fail(peer); });
  return worked;
}

bool Adapter::poll_sends() {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = send_cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    on_sent(completions[i]);
  }
  return count > 0;
}

void Adapter::on_sent(const roce::Completion& completion) {
  const CompletionId id = CompletionId::from(completion.wr_id);
  switch (id.kind) {
    case CompletionId::transfer:
      return sender_->on_sent(id.value, completion.status);
    case CompletionId::payload:
      return receiver_->on_payload(*parts_->ports[id.value >> 16], id.value & 0xffff,
                                   completion.status);
    case CompletionId::untracked:
    case CompletionId::probe:
      break;
  }
  Peer& peer = *parts_->peers[id.value];
  const Status status = status_of(completion.status, peer);
  if (id.kind == CompletionId::probe) SignsOfLife::on_asked(peer);
  if (status == Status::ok) sender_->signs().on_heard(peer);
  if (status == Status::unreachable) sender_->fail(peer);
  if (id.kind == CompletionId::untracked) parts_->counters.transfers_failed.add();
}

std::uint64_t Adapter::next_deadline_ns() const { return sender_->signs().next_ns(); }

// What it tells.

const Counters& Adapter::counters() const { return parts_->counters; }

void Adapter::visit_counters(stack::CounterVisitor visit, void* context) const {
  parts_->counters.visit(visit, context);
}

}  // namespace rockhopper::ami
