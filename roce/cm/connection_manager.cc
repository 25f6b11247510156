// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/connection_manager.h"

#include <algorithm>
#include <utility>

namespace rockhopper::roce::cm {

using wire::MadHeader;
using wire::cm::Attribute;

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
      gsi_(std::move(gsi)),
      timers_(kTimerTickNs),
      ca_guid_(config.random->next()) {}

ConnectionManager::~ConnectionManager() = default;

void ConnectionManager::poll(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  gsi_->poll(now_ns, [this](const ReceivedMad& mad) { on_mad(mad); });
  timers_.advance(now_ns);
}

std::uint64_t ConnectionManager::next_deadline_ns() const {
  return std::min(timers_.next_deadline_ns(), gsi_->next_deadline_ns());
}

std::optional<Event> ConnectionManager::poll_event() {
  if (events_.empty()) return std::nullopt;
  Event event = events_.front();
  events_.pop_front();
  return event;
}

Expected<void> ConnectionManager::listen(std::uint64_t service_id, std::uint32_t backlog,
                                         Capabilities offer) {
  if (backlog == 0) {
    return fail(ErrorCode::invalid_argument, "a backlog of 0 refuses everybody");
  }
  if (!listeners_.try_emplace(service_id, Listener{.backlog = backlog, .offer = offer}).second) {
    return fail(ErrorCode::busy, "service ID {:#x} has a listener already", service_id);
  }
  return {};
}

void ConnectionManager::stop_listening(std::uint64_t service_id) {
  listeners_.erase(service_id);
  // What still waits does not count against the next listener.
  for (const auto& [id, connection] : connections_) {
    if (connection->service_id_ == service_id) connection->waits_ = false;
  }
  for (const auto& [key, lookup] : peer_lookups_) {
    if (lookup->service_id_ == service_id) lookup->waits_ = false;
  }
}

void ConnectionManager::on_mad(const ReceivedMad& mad) {
  const MadHeader header = MadHeader::parse(mad.bytes.first<MadHeader::kSize>());
  if (header.base_version != MadHeader::kBaseVersion ||
      header.management_class != wire::cm::kManagementClass ||
      header.class_version != wire::cm::kClassVersion || header.method != wire::cm::kMethodSend) {
    counters_.unsupported_mads.add();
    return;
  }
  counters_.rcvd_messages.add();
  const wire::cm::Body body = mad.bytes.last<wire::cm::kBodyBytes>();
  switch (static_cast<Attribute>(header.attribute_id)) {
    case Attribute::req:
      return on_req(mad, header.transaction_id, wire::cm::Req::parse(body));
    case Attribute::mra:
      return on_mra(mad, wire::cm::Mra::parse(body));
    case Attribute::rej:
      return on_rej(mad, wire::cm::Rej::parse(body));
    case Attribute::rep:
      return on_rep(mad, header.transaction_id, wire::cm::Rep::parse(body));
    case Attribute::rtu:
      return on_rtu(mad, wire::cm::Rtu::parse(body));
    case Attribute::dreq:
      return on_dreq(mad, header.transaction_id, wire::cm::Dreq::parse(body));
    case Attribute::drep:
      return on_drep(mad, wire::cm::Drep::parse(body));
    case Attribute::sidr_req:
      return on_sidr_req(mad, header.transaction_id, wire::cm::SidrReq::parse(body));
    case Attribute::sidr_rep:
      return on_sidr_rep(mad, wire::cm::SidrRep::parse(body));
    case Attribute::lap:
    case Attribute::apr:
      break;
  }
  counters_.unsupported_messages.add();
}

template <typename Message>
Mad ConnectionManager::send(const MadPath& to, std::uint64_t transaction_id,
                            const Message& message) {
  Mad mad{};
  const std::span<std::uint8_t, wire::kMadBytes> bytes(mad);
  const MadHeader header{.management_class = wire::cm::kManagementClass,
                         .class_version = wire::cm::kClassVersion,
                         .method = wire::cm::kMethodSend,
                         .transaction_id = transaction_id,
                         .attribute_id = static_cast<std::uint16_t>(Message::kAttribute)};
  header.emit(bytes.first<MadHeader::kSize>());
  message.emit(bytes.last<wire::cm::kBodyBytes>());
  counters_.sent_messages.add();
  gsi_->send(to, mad, now_ns_);
  return mad;
}
template Mad ConnectionManager::send(const MadPath&, std::uint64_t, const wire::cm::Req&);
template Mad ConnectionManager::send(const MadPath&, std::uint64_t, const wire::cm::Mra&);
template Mad ConnectionManager::send(const MadPath&, std::uint64_t, const wire::cm::Rep&);
template Mad ConnectionManager::send(const MadPath&, std::uint64_t, const wire::cm::Rtu&);
template Mad ConnectionManager::send(const MadPath&, std::uint64_t, const wire::cm::Dreq&);
template Mad ConnectionManager::send(const MadPath&, std::uint64_t, const wire::cm::Drep&);
template Mad ConnectionManager::send(const MadPath&, std::uint64_t, const wire::cm::SidrReq&);
template Mad ConnectionManager::send(const MadPath&, std::uint64_t, const wire::cm::SidrRep&);

void ConnectionManager::repeat(const MadPath& to, const Mad& mad) {
  counters_.sent_messages.add();
  counters_.repeated_messages.add();
  gsi_->send(to, mad, now_ns_);
}

Mad ConnectionManager::send_reject(const MadPath& to, std::uint64_t transaction_id,
                                   wire::cm::Rej rej) {
  if (rej.reason == wire::cm::RejectReason::timeout) {
    // The peer may not know our communication ID as a connection's yet.
    rej.info_length = sizeof ca_guid_;
    wire::store_be64(rej.info.data(), ca_guid_);
  }
  counters_.sent_rejects.add();
  return send(to, transaction_id, rej);
}

void ConnectionManager::tell(const Event& event) {
  if (event.connection != nullptr && event.connection->released_) return;
  events_.push_back(event);
}

std::uint32_t ConnectionManager::new_id() {
  while (true) {
    const auto id = static_cast<std::uint32_t>(config_.random->next());
    if (id != 0 && !connections_.contains(id) && !lookups_.contains(id)) return id;
  }
}

template <typename Request>
void ConnectionManager::stop_waiting(Request& request) {
  if (std::exchange(request.waits_, false)) --listeners_.at(request.service_id_).waiting;
}
template void ConnectionManager::stop_waiting(Connection&);
template void ConnectionManager::stop_waiting(Lookup&);

void ConnectionManager::visit_counters(void (*visit)(void* context, const char* name,
                                                     std::uint64_t value),
                                       void* context) const {
#define X(name, text) visit(context, #name, counters_.name.value());
  ROCKHOPPER_CM_COUNTERS(X)
#undef X
#define X(name, text) visit(context, #name, gsi_->counters().name.value());
  ROCKHOPPER_GSI_COUNTERS(X)
#undef X
}

void ConnectionManager::describe_counters(void (*visit)(void*, const char*, const char*),
                                          void* context) {
#define X(name, text) visit(context, #name, text);
  ROCKHOPPER_CM_COUNTERS(X)
#undef X
#define X(name, text) visit(context, #name, text);
  ROCKHOPPER_GSI_COUNTERS(X)
#undef X
}

}  // namespace rockhopper::roce::cm
