// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Identifiers listen, connect, accept, reject and disconnect.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/verbs/cm/agent.h"

namespace rockhopper::verbs::cm {
namespace {

using roce::cm::IpServiceHeader;
using roce::cm::QpParameters;
using wire::cm::RejectReason;

/// As many as the kernel lets wait where a program asks for more, or for 0.
constexpr std::uint32_t kBacklogMax = 1024;
/// The manager has one listener for all identifiers of a service; it is their backlogs that count.
constexpr std::uint32_t kNoLimit = 65'536;
/// 0.3 s: processes of a crowded machine wait for a processor.
constexpr std::uint8_t kAckTimeout = 16;
constexpr std::uint8_t kAckTimeoutMax = 31;
constexpr std::uint8_t kRetriesMax = 7;

/// What programs say, with what librdmacm's peers look for before it.
class RequestData {
 public:
  /// 0 or EINVAL. `room`: of the message's private data.
  [[nodiscard]] int set(const Identifier& identifier, std::span<const std::uint8_t> data,
                        std::size_t room) {
    size_ = IpServiceHeader::kSize + data.size();
    if (size_ > room) return EINVAL;
    IpServiceHeader{.source_port = identifier.local.port,
                    .source = identifier.local.address,
                    .destination = identifier.remote.address}
        .emit(std::span(bytes_).first<IpServiceHeader::kSize>());
    std::ranges::copy(data, bytes_.begin() + IpServiceHeader::kSize);
    return 0;
  }
  [[nodiscard]] std::span<const std::uint8_t> view() const {
    return std::span(bytes_).first(size_);
  }

 private:
  std::array<std::uint8_t, wire::cm::SidrReq::kPrivateBytes> bytes_{};
  std::size_t size_ = 0;
};

std::span<const std::uint8_t> data_of(const rdma_ucm_conn_param& parameters) {
  return std::span(parameters.private_data).first(parameters.private_data_len);
}

QpParameters parameters_of(const Identifier& identifier, const rdma_ucm_conn_param& given) {
  return {.access_flags = 0,
          .responder_resources = given.responder_resources,
          .initiator_depth = given.initiator_depth,
          .retry_cnt = std::min(given.retry_count, kRetriesMax),
          .rnr_retry = std::min(given.rnr_retry_count, kRetriesMax),
          .ack_timeout = std::min(identifier.ack_timeout.value_or(kAckTimeout), kAckTimeoutMax)};
}

roce::cm::ExternalQp queue_pair_of(const Identifier& identifier, const rdma_ucm_conn_param& given) {
  return {.type = static_cast<roce::QpType>(identifier.qp_type),
          .number = {given.qp_num & 0xffffff},
          .has_srq = given.srq != 0,
          .has_flow_control = given.flow_control != 0};
}

int errno_of(const Error& error) { return error.code == ErrorCode::exhausted ? ENOMEM : EINVAL; }

template <typename Value>
int errno_of(const Expected<Value>& result) {
  return result ? 0 : errno_of(result.error());
}

}  // namespace

int Agent::listen(Identifier& identifier, std::uint32_t backlog) {
  if (identifier.state == IdentifierState::idle) {
    const int error = bind(identifier, SocketAddress::any(AF_INET));
    if (error != 0) return error;
  }
  if (identifier.state != IdentifierState::bound) return EINVAL;
  if (const int error = ports_.check_listener(identifier); error != 0) return error;
  const std::uint64_t service_id = identifier.local_service_id();
  if (!ports_.has_listener(service_id)) {
    if (const auto made = manager_->listen(service_id, kNoLimit); !made) return EADDRINUSE;
    if (const int error = ports_.serve(service_id); error != 0) {
      manager_->stop_listening(service_id);
      return error;
    }
  }
  identifier.backlog = backlog == 0 || backlog > kBacklogMax ? kBacklogMax : backlog;
  identifier.state = IdentifierState::listening;
  return 0;
}

int Agent::connect(Identifier& identifier, const rdma_ucm_conn_param& parameters) {
  if (parameters.valid == 0 || identifier.state != IdentifierState::route_resolved) return EINVAL;
  roce::AddressVector path = identifier.path;
  path.traffic_class = identifier.type_of_service;
  const std::uint64_t service_id =
      roce::cm::ip_service_id(identifier.space, identifier.remote.port);
  RequestData data;
  if (identifier.is_datagram()) {
    if (data.set(identifier, data_of(parameters), wire::cm::SidrReq::kPrivateBytes) != 0) {
      return EINVAL;
    }
    const auto asked =
        manager_->resolve({.path = path, .service_id = service_id, .private_data = data.view()});
    if (!asked) return errno_of(asked);
    identifier.lookup = *asked;
    identifier.lookup->context = identifier.handle;
  } else {
    if (data.set(identifier, data_of(parameters), wire::cm::Req::kPrivateBytes) != 0) return EINVAL;
    const auto asked = manager_->connect(queue_pair_of(identifier, parameters),
                                         {.path = path,
                                          .service_id = service_id,
                                          .private_data = data.view(),
                                          .qp = parameters_of(identifier, parameters)});
    if (!asked) return errno_of(asked);
    identifier.connection = *asked;
    identifier.connection->context = identifier.handle;
  }
  identifier.state = IdentifierState::connecting;
  return 0;
}

int Agent::accept(Identifier& identifier, std::uint64_t uid,
                  const rdma_ucm_conn_param& parameters) {
  if (identifier.connection == nullptr && identifier.lookup == nullptr) return EINVAL;
  if (identifier.state == IdentifierState::connecting) {
    // The answer to a reply: the program has moved its queue pair.
    return identifier.connection == nullptr || parameters.valid != 0
               ? EINVAL
               : errno_of(manager_->confirm(*identifier.connection));
  }
  if (identifier.state != IdentifierState::requested) return EINVAL;
  const bool is_valid = parameters.valid != 0;
  const auto data = is_valid ? data_of(parameters) : std::span<const std::uint8_t>();
  if (auto* lookup = identifier.lookup) {
    identifier.qkey = is_valid && parameters.qkey != 0 ? parameters.qkey : roce::cm::kUdpQkey;
    const auto answered =
        manager_->answer(*lookup, {parameters.qp_num & 0xffffff}, identifier.qkey, data);
    if (!answered) return errno_of(answered);
    identifier.lookup = nullptr;  // it was the last word of it
  } else {
    if (!is_valid) return EINVAL;
    const auto accepted =
        manager_->accept(*identifier.connection, queue_pair_of(identifier, parameters),
                         parameters_of(identifier, parameters), data);
    if (!accepted) return errno_of(accepted);
  }
  identifier.state = IdentifierState::connecting;
  identifier.uid = uid;
  return 0;
}

int Agent::reject(Identifier& identifier, const rdma_ucm_reject& command) {
  constexpr std::uint8_t kOptionNotSupported = 35;
  const auto consumer = static_cast<std::uint8_t>(RejectReason::consumer);
  const std::uint8_t reason = command.reason == 0 ? consumer : command.reason;
  if (reason != consumer && reason != kOptionNotSupported) return EINVAL;
  const auto data = std::span(command.private_data).first(command.private_data_len);
  if (identifier.lookup != nullptr && identifier.state == IdentifierState::requested) {
    const auto refused = manager_->refuse(*identifier.lookup, wire::cm::SidrStatus::rejected, data);
    if (refused) identifier.lookup = nullptr;
    return errno_of(refused);
  }
  if (identifier.connection == nullptr) return EINVAL;
  return errno_of(
      manager_->reject(*identifier.connection, data, static_cast<RejectReason>(reason)));
}

int Agent::disconnect(Identifier& identifier) {
  if (identifier.connection == nullptr) return identifier.lookup == nullptr ? EINVAL : 0;
  // One that is not connected has nothing to end, which the kernel does not mind.
  (void)manager_->disconnect(*identifier.connection);
  return 0;
}

int Agent::notify(Identifier& identifier, std::uint32_t event) {
  if (identifier.connection == nullptr || event != IBV_EVENT_COMM_EST) return EINVAL;
  return errno_of(manager_->establish(*identifier.connection));
}

}  // namespace rockhopper::verbs::cm
