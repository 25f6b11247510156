// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/connection_manager.h"

#include <algorithm>
#include <utility>

#include "roce/cm/active.h"
#include "roce/cm/passive.h"
#include "roce/cm/release.h"
#include "roce/cm/resolver.h"

namespace rockhopper::roce::cm {
namespace {

constexpr std::uint64_t kTimerTickNs = 65'536;

}  // namespace

Expected<std::unique_ptr<ConnectionManager>> ConnectionManager::create(
    const ConnectionManagerConfig& config) {
  if (config.engine == nullptr || config.random == nullptr) {
    return fail(ErrorCode::invalid_argument,
                "a connection manager needs an engine and a generator");
  }
  if (config.response_timeout > 31 || config.service_timeout > 31 || config.max_retries > 15) {
    return fail(ErrorCode::invalid_argument, "timeout codes are 0 to 31, retries 0 to 15");
  }
  ROCKHOPPER_TRY(auto gsi, Gsi::create(*config.engine));
  return std::unique_ptr<ConnectionManager>(new ConnectionManager(config, std::move(gsi)));
}

ConnectionManager::ConnectionManager(const ConnectionManagerConfig& config,
                                     std::unique_ptr<Gsi> gsi)
    : config_(config),
      parts_(
          new ManagerParts{.config = config_,
                           .engine = *config.engine,
                           .counters = counters_,
                           .messenger = Messenger(std::move(gsi), config.random->next(), counters_),
                           .timers = stack::TimingWheel(kTimerTickNs),
                           .table = ConnectionTable(config.max_connections)}),
      connections_(std::make_unique<Connections>(*parts_)),
      active_(std::make_unique<ActiveSide>(*parts_, *connections_)),
      passive_(std::make_unique<PassiveSide>(*parts_, *connections_)),
      release_(std::make_unique<Release>(*parts_, *connections_, *active_, *passive_)),
      resolver_(std::make_unique<Resolver>(*parts_)) {}

ConnectionManager::~ConnectionManager() = default;

void ConnectionManager::poll(std::uint64_t now_ns) {
  parts_->now_ns = now_ns;
  parts_->messenger.poll(now_ns, [this](const ReceivedMad& mad, const wire::MadHeader& header,
                                        wire::cm::Body body) { on_message(mad, header, body); });
  parts_->timers.advance(now_ns);
}

void ConnectionManager::on_message(const ReceivedMad& mad, const wire::MadHeader& header,
                                   wire::cm::Body body) {
  using wire::cm::Attribute;
  const std::uint64_t transaction_id = header.transaction_id;
  switch (static_cast<Attribute>(header.attribute_id)) {
    case Attribute::req:
      return passive_->on_req(mad, transaction_id, wire::cm::Req::parse(body));
    case Attribute::mra:
      return active_->on_mra(mad, wire::cm::Mra::parse(body));
    case Attribute::rej:
      return release_->on_rej(mad, wire::cm::Rej::parse(body));
    case Attribute::rep:
      return active_->on_rep(mad, transaction_id, wire::cm::Rep::parse(body));
    case Attribute::rtu:
      return passive_->on_rtu(mad, wire::cm::Rtu::parse(body));
    case Attribute::dreq:
      return release_->on_dreq(mad, transaction_id, wire::cm::Dreq::parse(body));
    case Attribute::drep:
      return release_->on_drep(mad, wire::cm::Drep::parse(body));
    case Attribute::sidr_req:
      return resolver_->on_req(mad, transaction_id, wire::cm::SidrReq::parse(body));
    case Attribute::sidr_rep:
      return resolver_->on_rep(mad, wire::cm::SidrRep::parse(body));
    case Attribute::lap:
    case Attribute::apr:
      break;
  }
  counters_.unsupported_messages.add();
}

std::uint64_t ConnectionManager::next_deadline_ns() const {
  return std::min(parts_->timers.next_deadline_ns(), parts_->messenger.next_deadline_ns());
}

std::optional<Event> ConnectionManager::poll_event() {
  if (parts_->events.empty()) return std::nullopt;
  Event event = parts_->events.front();
  parts_->events.pop_front();
  return event;
}

// Services.

Expected<void> ConnectionManager::listen(std::uint64_t service_id, std::uint32_t backlog,
                                         Capabilities offer) {
  if (backlog == 0) return fail(ErrorCode::invalid_argument, "a backlog of 0 refuses everybody");
  if (!parts_->listeners.add(service_id, backlog, offer)) {
    return fail(ErrorCode::busy, "service ID {:#x} has a listener already", service_id);
  }
  return {};
}

void ConnectionManager::stop_listening(std::uint64_t service_id) {
  parts_->listeners.remove(service_id);
  // What still waits does not count against the next listener.
  parts_->table.for_each([&](ManagedConnection& connection) {
    if (connection.service_id_ == service_id) Listeners::drop(connection.place);
  });
  resolver_->stop_listening(service_id);
}

// Connections.

Expected<Connection*> ConnectionManager::connect(QueuePair& qp,
                                                 const ConnectParameters& parameters) {
  return active_->connect(qp, parameters);
}

Expected<Connection*> ConnectionManager::connect(const ExternalQp& qp,
                                                 const ConnectParameters& parameters) {
  return active_->connect(qp, parameters);
}

Expected<void> ConnectionManager::accept(Connection& connection, QueuePair& qp,
                                         const QpParameters& parameters,
                                         std::span<const std::uint8_t> private_data) {
  return passive_->accept(managed(connection), qp, parameters, private_data);
}

Expected<void> ConnectionManager::accept(Connection& connection, const ExternalQp& qp,
                                         const QpParameters& parameters,
                                         std::span<const std::uint8_t> private_data) {
  return passive_->accept(managed(connection), qp, parameters, private_data);
}

Expected<QpAttributes> ConnectionManager::qp_attributes(const Connection& connection) {
  const auto& known = static_cast<const ManagedConnection&>(connection);
  if (known.state_ != State::req_sent && known.state_ != State::closed) {
    return Connections::attributes(known);
  }
  return fail(ErrorCode::invalid_state,
              "the peer's queue pair is not known: the connection is in {}",
              to_string(known.state_));
}

Expected<void> ConnectionManager::confirm(Connection& connection) {
  return active_->confirm(managed(connection));
}

Expected<void> ConnectionManager::establish(Connection& connection) {
  return passive_->establish(managed(connection));
}

Expected<void> ConnectionManager::reject(Connection& connection,
                                         std::span<const std::uint8_t> private_data,
                                         wire::cm::RejectReason reason) {
  if (connection.state() == State::rep_rcvd) {
    return active_->reject(managed(connection), private_data, reason);
  }
  return passive_->reject(managed(connection), private_data, reason);
}

Expected<void> ConnectionManager::disconnect(Connection& connection) {
  return connections_->disconnect(managed(connection));
}

void ConnectionManager::release(Connection& connection) { release_->release(managed(connection)); }

std::size_t ConnectionManager::connection_count() const { return parts_->table.size(); }

// Lookups.

Expected<Lookup*> ConnectionManager::resolve(const ResolveParameters& parameters) {
  return resolver_->resolve(parameters);
}

Expected<void> ConnectionManager::answer(Lookup& lookup, wire::Qpn qpn, std::uint32_t qkey,
                                         std::span<const std::uint8_t> private_data) {
  return resolver_->answer(lookup, qpn, qkey, private_data);
}

Expected<void> ConnectionManager::refuse(Lookup& lookup, wire::cm::SidrStatus status,
                                         std::span<const std::uint8_t> private_data) {
  return resolver_->refuse(lookup, status, private_data);
}

void ConnectionManager::release(Lookup& lookup) { resolver_->release(lookup); }

void ConnectionManager::visit_counters(stack::CounterVisitor visit, void* context) const {
  counters_.visit(visit, context);
  parts_->messenger.gsi_counters().visit(visit, context);
}

void ConnectionManager::describe_counters(stack::CounterTextVisitor visit, void* context) {
  Counters::describe(visit, context);
  GsiCounters::describe(visit, context);
}

}  // namespace rockhopper::roce::cm
