// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What the connection manager tells becomes what programs are told.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "apps/verbs/cm/agent.h"

namespace rockhopper::verbs::cm {
namespace {

using roce::cm::EventType;
using roce::cm::IpServiceHeader;
using wire::cm::RejectReason;

void set_data(std::span<const std::uint8_t> data, std::uint8_t (&to)[RDMA_MAX_PRIVATE_DATA],
              std::uint8_t& length) {
  std::ranges::copy(data, std::begin(to));
  length = static_cast<std::uint8_t>(data.size());
}

/// What one end serves is what the other may ask for.
void set_peer(const roce::cm::Connection& connection, rdma_ucm_conn_param& to) {
  const roce::cm::PeerParameters& peer = connection.peer();
  to.responder_resources = peer.initiator_depth;
  to.initiator_depth = peer.responder_resources;
  to.flow_control = peer.has_flow_control ? 1 : 0;
  to.retry_count = peer.retry_cnt;
  to.rnr_retry_count = peer.rnr_retry;
  to.srq = peer.has_srq ? 1 : 0;
  to.qp_num = connection.remote_qpn().value;
}

}  // namespace

void Agent::poll(std::uint64_t now_ns) {
  manager_->poll(now_ns);
  while (const auto event = manager_->poll_event()) {
    on_event(*event);
  }
}

Identifier* Agent::owner_of(const roce::cm::Event& event) const {
  const std::uint64_t handle =
      event.connection != nullptr ? event.connection->context : event.lookup->context;
  const auto found = identifiers_.find(static_cast<std::uint32_t>(handle));
  return found == identifiers_.end() ? nullptr : found->second.get();
}

void Agent::on_event(const roce::cm::Event& event) {
  if (event.type == EventType::connect_request || event.type == EventType::lookup_request) {
    return on_request(event);
  }
  // What a program has destroyed, the manager tells nothing of.
  if (Identifier* identifier = owner_of(event); identifier != nullptr) {
    on_answer(*identifier, event);
  }
}

Identifier* Agent::listener_of(const roce::cm::Event& event, IpServiceHeader& header) const {
  const auto parsed = IpServiceHeader::parse(event.private_data.view());
  if (!parsed) return nullptr;
  header = *parsed;
  const roce::AddressVector& path =
      event.connection != nullptr ? event.connection->path() : event.lookup->path();
  const std::uint64_t service_id =
      event.connection != nullptr ? event.connection->service_id() : event.lookup->service_id();
  // Addresses of the loopback device are as good as those of the device, but only on this host.
  const auto stands_for = [&](const stack::IpAddress& told, const stack::IpAddress& carried) {
    return told == carried || (told.is_loopback() && routes_.local(path.destination));
  };
  if (!stands_for(header.source, path.destination) ||
      !stands_for(header.destination, path.source)) {
    return nullptr;
  }
  return ports_.listener(service_id, header.destination);
}

void Agent::refuse(const roce::cm::Event& event, RejectReason reason) {
  if (event.connection != nullptr) {
    (void)manager_->reject(*event.connection, {}, reason);
    manager_->release(*event.connection);
  } else {
    (void)manager_->refuse(*event.lookup, reason == RejectReason::invalid_service_id
                                              ? wire::cm::SidrStatus::unsupported_service
                                              : wire::cm::SidrStatus::rejected);
  }
}

void Agent::on_request(const roce::cm::Event& event) {
  IpServiceHeader header;
  Identifier* listener = listener_of(event, header);
  if (listener == nullptr) return refuse(event, RejectReason::invalid_service_id);
  const bool fits = event.connection == nullptr ||
                    static_cast<std::uint8_t>(event.connection->qp_type()) == listener->qp_type;
  const bool has_room = listener->backlog > 0 && identifiers_.size() < kHandlesMax;
  if (!fits || !has_room) return refuse(event, RejectReason::consumer);
  --listener->backlog;
  Identifier& made = make_identifier(*listener->channel);
  made.space = listener->space;
  made.qp_type = listener->qp_type;
  made.state = IdentifierState::requested;
  made.local = {
      .family = static_cast<sa_family_t>(header.destination.is_ipv4() ? AF_INET : AF_INET6),
      .address = header.destination,
      .port = listener->local.port};
  made.remote = {.family = made.local.family, .address = header.source, .port = header.source_port};
  made.has_device = true;
  made.ack_timeout = listener->ack_timeout;
  QueuedEvent told{.owner = listener, .request = &made};
  told.response.uid = listener->uid;
  told.response.id = made.handle;
  told.response.event = number_of(ProgramEvent::connect_request);
  const auto data = event.private_data.view().subspan(IpServiceHeader::kSize);
  if (event.connection != nullptr) {
    made.connection = event.connection;
    made.connection->context = made.handle;
    made.path = made.connection->path();
    set_peer(*made.connection, told.response.param.conn);
    set_data(data, told.response.param.conn.private_data,
             told.response.param.conn.private_data_len);
  } else {
    made.lookup = event.lookup;
    made.lookup->context = made.handle;
    made.path = made.lookup->path();
    set_data(data, told.response.param.ud.private_data, told.response.param.ud.private_data_len);
  }
  push(told);
}

void Agent::on_answer(Identifier& identifier, const roce::cm::Event& event) {
  QueuedEvent told{.owner = &identifier};
  rdma_ucm_event_resp& response = told.response;
  response.uid = identifier.uid;
  response.id = identifier.handle;
  const auto data = event.private_data.view();
  rdma_ucm_conn_param& conn = response.param.conn;
  rdma_ucm_ud_param& ud = response.param.ud;
  switch (event.type) {
    case EventType::connect_response:
      response.event = number_of(ProgramEvent::connect_response);
      set_peer(*event.connection, conn);
      set_data(data, conn.private_data, conn.private_data_len);
      break;
    case EventType::established:
      response.event = number_of(ProgramEvent::established);
      break;
    case EventType::rejected:
      response.event = number_of(ProgramEvent::rejected);
      response.status = static_cast<std::uint32_t>(event.reason);
      set_data(data, conn.private_data, conn.private_data_len);
      break;
    case EventType::unreachable:
      response.event = number_of(ProgramEvent::unreachable);
      response.status = static_cast<std::uint32_t>(-ETIMEDOUT);
      break;
    case EventType::connect_error:
      response.event = number_of(ProgramEvent::connect_error);
      response.status = static_cast<std::uint32_t>(-EINVAL);
      break;
    case EventType::disconnected:
      response.event = number_of(ProgramEvent::disconnected);
      break;
    case EventType::timewait_exit:
      response.event = number_of(ProgramEvent::timewait_exit);
      break;
    case EventType::resolved:
      response.event = number_of(ProgramEvent::established);
      ud.qp_num = event.qpn.value;
      ud.qkey = event.qkey;
      ud.ah_attr = attributes_of(identifier.path);
      set_data(data, ud.private_data, ud.private_data_len);
      break;
    case EventType::lookup_failed:
      response.event = number_of(ProgramEvent::unreachable);
      response.status = event.unreachable ? static_cast<std::uint32_t>(-ETIMEDOUT)
                                          : static_cast<std::uint32_t>(event.status);
      set_data(data, ud.private_data, ud.private_data_len);
      break;
    case EventType::connect_request:
    case EventType::lookup_request:
      return;
  }
  push(told);
}

void Agent::tell(Identifier& identifier, ProgramEvent type, int status) {
  QueuedEvent told{.owner = &identifier};
  told.response.uid = identifier.uid;
  told.response.id = identifier.handle;
  told.response.event = number_of(type);
  told.response.status = static_cast<std::uint32_t>(status);
  push(told);
}

/// As the kernel, it keeps what comes of a request to itself until the program has given it a name.
void Agent::push(const QueuedEvent& event) {
  if (event.response.uid == 0 && event.request == nullptr) return;
  event.owner->channel->push(event);
}

ib_uverbs_ah_attr Agent::attributes_of(const roce::AddressVector& path) const {
  ib_uverbs_ah_attr attributes{};
  std::memcpy(attributes.grh.dgid, path.destination.bytes.data(), sizeof attributes.grh.dgid);
  attributes.grh.flow_label = path.flow_label;
  const auto entries = static_cast<std::uint16_t>(node_.engine().query_port().gid_tbl_len);
  for (std::uint16_t index = 0; index < entries; ++index) {
    const auto own = node_.engine().query_gid(index);
    if (!own || *own != path.source) continue;
    attributes.grh.sgid_index = static_cast<std::uint8_t>(index);
    break;
  }
  attributes.grh.hop_limit = path.hop_limit;
  attributes.grh.traffic_class = path.traffic_class;
  attributes.sl = path.service_level;
  attributes.is_global = 1;
  attributes.port_num = kPort;
  return attributes;
}

}  // namespace rockhopper::verbs::cm
