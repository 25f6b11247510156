// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/endpoint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <variant>

#include "dc/endpoint_context.h"
#include "dc/requester.h"
#include "roce/wire/cm.h"

namespace rockhopper::dc {

using roce::DropReason;

Expected<std::unique_ptr<Endpoint>> Endpoint::create(roce::Engine& engine,
                                                     const EndpointConfig& config) {
  const SessionTable::Config& sessions = config.sessions;
  if (sessions.contexts == 0 || sessions.contexts > 1u << 20 || sessions.tombstones > 1u << 24) {
    return fail(ErrorCode::invalid_argument,
                "a DC endpoint has 1 to {} responder contexts and up to {} tombstones, not {} "
                "and {}",
                1u << 20, 1u << 24, sessions.contexts, sessions.tombstones);
  }
  const unsigned least = config.lock_execution ? kLockResources : 1;
  if (config.lease_us == 0 || config.responder_resources < least ||
      config.responder_resources > roce::kMaxRdAtomic) {
    return fail(ErrorCode::invalid_argument,
                "a lease is above 0, and responder resources are {} to {}", least,
                roce::kMaxRdAtomic);
  }
  std::unique_ptr<Endpoint> endpoint(new Endpoint(engine, config));
  ROCKHOPPER_TRY(endpoint->context_->targets->make_contexts());
  return endpoint;
}

Endpoint::Endpoint(roce::Engine& engine, const EndpointConfig& config)
    : context_(std::make_unique<EndpointContext>(engine, engine.attach_extension(*this), config)) {
  SessionTable::Config sessions = config.sessions;
  sessions.shard = static_cast<std::uint8_t>(context_->extension.config().shard);
  context_->cnaks = std::make_unique<CnakQueue>(*context_);
  context_->targets = std::make_unique<Targets>(*context_, sessions);
}

Endpoint::~Endpoint() {
  context_->numbers.for_each([this](Dci& dci) { destroy_dci(&dci); },
                             [this](Dct& dct) { destroy_dct(&dct); });
  context_->engine.detach_extension();
}

Expected<Dci*> Endpoint::create_dci(const DciInit& init) {
  if (init.send_cq == nullptr || init.streams == 0 || init.streams > wire::Dcsh::kStreamMax + 1) {
    return fail(ErrorCode::invalid_argument,
                "a DC initiator needs a completion queue and 1 to {} streams",
                wire::Dcsh::kStreamMax + 1);
  }
  if (bytes(init.path_mtu) > max_path_mtu()) {
    return fail(ErrorCode::invalid_argument,
                "path MTU {} does not fit the interface MTU; the largest that does is {}",
                bytes(init.path_mtu), max_path_mtu());
  }
  if (init.timeout > 31 || init.retry_cnt > 7 || init.rnr_retry > 7 ||
      init.max_rd_atomic > roce::kMaxRdAtomic) {
    return fail(ErrorCode::invalid_argument,
                "a timer code is 0 to 31, a retry count 0 to 7, and {} READs and atomics can be "
                "outstanding",
                roce::kMaxRdAtomic);
  }
  ROCKHOPPER_TRY(context_->engine.valid_pkey(init.pkey_index));
  ROCKHOPPER_TRY(const auto number, context_->numbers.choose());
  auto dci = std::make_unique<Dci>(*context_, number, init);
  for (unsigned stream = 0; stream < init.streams; ++stream) {
    if (auto added = dci->add_stream(static_cast<std::uint8_t>(stream)); !added) {
      for (const Dci::Stream& made : dci->streams()) {
        context_->extension.destroy_qp(made.qp);
      }
      context_->numbers.give_back(number);
      return tl::make_unexpected(added.error());
    }
  }
  return context_->numbers.add(std::move(dci));
}

void Endpoint::destroy_dci(Dci* dci) {
  assert(dci != nullptr && context_->numbers.find_dci(dci->number()) == dci);
  for (const Dci::Stream& stream : dci->streams()) {
    context_->extension.destroy_qp(stream.qp);
  }
  context_->numbers.remove(*dci);
}

Expected<Dct*> Endpoint::create_dct(const DctInit& init) {
  ROCKHOPPER_TRY(context_->extension.check_receive_side(init.pd, init.srq, init.recv_cq));
  if ((init.access_flags & ~roce::kAccessQp) != 0 || init.min_rnr_timer > 31) {
    return fail(ErrorCode::invalid_argument, "unknown access flags, or a timer code above 31");
  }
  ROCKHOPPER_TRY(context_->engine.valid_pkey(init.pkey_index));
  ROCKHOPPER_TRY(const auto number, context_->numbers.choose());
  context_->extension.use_receive_side(init.srq, init.recv_cq, 1);
  return context_->numbers.add(
      std::make_unique<Dct>(number, init, init.access_key.value_or(random().next())));
}

void Endpoint::destroy_dct(Dct* dct) {
  assert(dct != nullptr && context_->numbers.find_dct(dct->number()) == dct);
  context_->targets->close_all(*dct);
  context_->extension.use_receive_side(dct->init().srq, dct->init().recv_cq, -1);
  context_->numbers.remove(*dct);
}

std::uint32_t Endpoint::max_path_mtu() const { return context_->max_path_mtu(); }

std::size_t Endpoint::session_count() const { return context_->targets->open_count(); }

roce::Random& Endpoint::random() const { return context_->random(); }

const Counters& Endpoint::counters() const { return context_->counters; }

bool Endpoint::has_packets() const { return !context_->cnaks->empty(); }

bool Endpoint::uses(roce::ProtectionDomain pd) const { return context_->numbers.uses(pd); }

roce::TransmitResult Endpoint::transmit(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t /*now_ns*/) {
  return context_->cnaks->transmit(packets, count);
}

std::optional<DropReason> Endpoint::accept(const stack::UdpDatagram& datagram,
                                           const roce::RxPacket& packet, std::uint64_t now_ns) {
  if (datagram.destination.is_multicast()) return DropReason::bad_address;
  if (packet.headers.opcode->has(wire::Header::dcch)) {
    return accept_connect_data(datagram, packet, now_ns);
  }
  switch (packet.headers.opcode->operation) {
    case wire::Operation::cnp:
      return accept_cnp(datagram, packet, now_ns);
    case wire::Operation::dc_control:
      return accept_control(datagram, packet, now_ns);
    default:
      break;
  }
  return packet.headers.opcode->is_request ? context_->targets->on_request(datagram, packet, now_ns)
                                           : accept_response(datagram, packet, now_ns);
}

/// A notification names the initiator and no stream: all that have to do with its source obey. What
/// a target sends has no rate to lower.
std::optional<DropReason> Endpoint::accept_cnp(const stack::UdpDatagram& datagram,
                                               const roce::RxPacket& packet,
                                               std::uint64_t now_ns) const {
  const wire::Qpn to = packet.headers.bth.destination;
  const Dci* dci = context_->numbers.find_dci(to);
  if (dci == nullptr) {
    if (context_->numbers.find_dct(to) == nullptr) return DropReason::unknown_qp;
    context_->extension.count_cnp(false);
    return std::nullopt;
  }
  std::optional<DropReason> refusal = DropReason::dc_unknown_session;
  bool obeyed = false;
  for (const Dci::Stream& stream : dci->streams()) {
    if (!stream.requester->has_target() || !stream.qp->accepts(datagram)) continue;
    if (!context_->extension.admits(*stream.qp, packet)) return DropReason::bad_pkey;
    refusal.reset();
    obeyed |= context_->extension.obey_cnp(*stream.qp, now_ns);
  }
  if (!refusal) context_->extension.count_cnp(obeyed);
  return refusal;
}

std::optional<DropReason> Endpoint::accept_control(const stack::UdpDatagram& datagram,
                                                   const roce::RxPacket& packet,
                                                   std::uint64_t now_ns) {
  if (!context_->engine.find_pkey(packet.headers.bth.pkey)) return DropReason::bad_pkey;
  if (packet.payload.length > kMessageMax) return DropReason::dc_bad_control;
  std::array<std::uint8_t, kMessageMax> bytes;
  copy_from_mbuf(packet.payload, reinterpret_cast<std::byte*>(bytes.data()));
  const auto message = parse_message({bytes.data(), packet.payload.length});
  if (!message) return DropReason::dc_bad_control;
  const wire::Qpn to = packet.headers.bth.destination;
  if (const auto* connect = std::get_if<Connect>(&*message)) {
    return context_->targets->on_connect(*connect, context_->numbers.find_dct(to), datagram, packet,
                                         now_ns);
  }
  if (const auto* disconnect = std::get_if<Disconnect>(&*message)) {
    return context_->targets->on_disconnect(*disconnect, datagram, now_ns);
  }
  if (const auto* keepalive = std::get_if<KeepAlive>(&*message)) {
    return keepalive->answer ? std::nullopt
                             : context_->targets->on_keepalive(*keepalive, datagram, now_ns);
  }
  if (const auto* accepted = std::get_if<Accept>(&*message)) {
    Requester* stream = find_stream(to, accepted->nonce, 0, datagram);
    if (stream == nullptr) return DropReason::dc_unknown_session;
    stream->on_accept(*accepted, now_ns);
    return std::nullopt;
  }
  const Cnak& cnak = std::get<Cnak>(*message);
  Requester* stream = find_stream(to, cnak.nonce, cnak.session_id, datagram);
  if (stream == nullptr) return DropReason::dc_unknown_session;
  stream->on_cnak(cnak, now_ns);
  return std::nullopt;
}

std::optional<DropReason> Endpoint::accept_connect_data(const stack::UdpDatagram& datagram,
                                                        const roce::RxPacket& packet,
                                                        std::uint64_t now_ns) {
  const wire::Headers& headers = packet.headers;
  const auto message = parse_message(headers.dcch.bytes);
  const auto* connect = message ? std::get_if<Connect>(&*message) : nullptr;
  if (connect == nullptr || connect->full || connect->first_psn != headers.bth.psn) {
    return DropReason::dc_bad_control;
  }
  if (packet.payload.length > carried_max(wire::cm::mtu_bytes(connect->mtu_code))) {
    return DropReason::dc_bad_control;
  }
  return context_->targets->on_connect_data(
      *connect, context_->numbers.find_dct(headers.bth.destination), datagram, packet, now_ns);
}

Requester* Endpoint::find_stream(wire::Qpn initiator, std::uint32_t nonce, std::uint64_t session_id,
                                 const stack::UdpDatagram& datagram) const {
  const Dci* dci = context_->numbers.find_dci(initiator);
  if (dci == nullptr) return nullptr;
  for (const Dci::Stream& stream : dci->streams()) {
    if (stream.requester->is_about(nonce, session_id) && stream.qp->accepts(datagram)) {
      return stream.requester;
    }
  }
  return nullptr;
}

std::optional<DropReason> Endpoint::accept_response(const stack::UdpDatagram& datagram,
                                                    const roce::RxPacket& packet,
                                                    std::uint64_t now_ns) {
  const wire::Dcsh& dcsh = packet.headers.dcsh;
  const Dci* dci = context_->numbers.find_dci(packet.headers.bth.destination);
  if (dci == nullptr) return DropReason::unknown_qp;
  if (dcsh.stream >= dci->streams().size() || !dcsh.has_session() ||
      !dci->streams()[dcsh.stream].requester->has_session(dcsh.value)) {
    context_->counters.ghost_responses.add();
    return DropReason::dc_unknown_session;
  }
  return context_->extension.deliver(*dci->streams()[dcsh.stream].qp, datagram, packet, now_ns);
}

void Endpoint::visit_counters(stack::CounterVisitor visit, void* context) const {
  context_->counters.visit(visit, context);
  // What was closed is read first: another thread may open sessions meanwhile.
  const std::uint64_t closed = context_->counters.sessions_closed.value();
  const std::uint64_t opened = context_->counters.sessions_opened.value();
  visit(context, "contexts", context_->config.sessions.contexts);
  visit(context, "contexts_in_use", opened - closed);
}

void Endpoint::describe_counters(stack::CounterTextVisitor visit, void* context) {
  Counters::describe(visit, context);
}

}  // namespace rockhopper::dc
