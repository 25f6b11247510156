// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/perftest_rdma_cm.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "roce/cm/ip_service.h"

namespace rockhopper::apps::perf {

using roce::cm::Event;
using roce::cm::EventType;
using roce::cm::State;
using wire::cm::RejectReason;

namespace {

constexpr std::uint32_t kBacklog = 4;
/// Messages under way at once. The exchange has one; more does no harm.
constexpr std::uint32_t kDepth = 4;
/// The largest message, that about a queue pair.
constexpr std::uint32_t kMessageBytes = 56;
constexpr std::uint32_t kExchangeMtu = 1024;  ///< enough for that
constexpr double kRetryAfterS = 0.1;
/// For how long a connection that is abandoned gets its messages sent.
constexpr std::uint64_t kAbandonNs = 200 * kNsPerMs;

}  // namespace

PerftestRdmaCm::PerftestRdmaCm(RcBackend& backend, const Options& options)
    : backend_(backend),
      options_(options),
      service_id_(roce::cm::ip_service_id(roce::cm::PortSpace::tcp, options.port)) {}

Expected<std::unique_ptr<PerftestRdmaCm>> PerftestRdmaCm::create(RcBackend& backend,
                                                                 const Options& options) {
  std::unique_ptr<PerftestRdmaCm> made(new PerftestRdmaCm(backend, options));
  ROCKHOPPER_TRY(made->node_,
                 CmNode::create(backend.endpoint(), {.timeout_s = options.timeout_s,
                                                     .pkey_index = options.endpoint.pkey_index}));
  return made;
}

PerftestRdmaCm::~PerftestRdmaCm() {
  if (measured_.connection != nullptr) node_->manager().release(*measured_.connection);
}

Expected<void> PerftestRdmaCm::wait(const std::function<bool()>& done, std::string_view what,
                                    bool forever) {
  return node_->wait(
      [&] {
        take_events();
        return done();
      },
      what, forever);
}

void PerftestRdmaCm::take_events() {
  while (const auto event = node_->manager().poll_event()) {
    if (event->lookup != nullptr) {
      (void)node_->manager().refuse(*event->lookup);
    } else if (event->type == EventType::connect_request) {
      take_request(*event);
    } else if (request_ && event->connection == request_->connection) {
      // The client does not want any more.
      node_->manager().release(*request_->connection);
      request_.reset();
    } else {
      CmConnection& about = event->connection == exchange_.connection ? exchange_ : measured_;
      if (event->connection != about.connection) continue;
      if (event->type == EventType::established) {
        about.established = true;
      } else if (!about.end) {
        about.end = *event;
      }
    }
  }
}

/// One connection for the exchange, and another one from there: perftest has no more with one queue
/// pair.
bool PerftestRdmaCm::is_welcome(const Event& request) const {
  if (request_ || !roce::cm::IpServiceHeader::parse(request.private_data.view())) return false;
  if (exchange_.connection == nullptr) return true;
  return measured_.connection == nullptr &&
         request.connection->path().destination == path().destination;
}

void PerftestRdmaCm::take_request(const Event& request) {
  if (is_welcome(request)) {
    request_ = request;
    return;
  }
  (void)node_->manager().reject(*request.connection);
  node_->manager().release(*request.connection);
}

Expected<void> PerftestRdmaCm::open_channel() {
  ROCKHOPPER_TRY(channel_, CmChannel::create(*node_, {.depth = kDepth,
                                                      .receive_bytes = kMessageBytes,
                                                      .send_bytes = kMessageBytes}));
  for (std::uint32_t slot = 0; slot < kDepth; ++slot) {
    ROCKHOPPER_TRY(channel_->post_receive(slot));
  }
  return {};
}

Expected<void> PerftestRdmaCm::meet() {
  if (is_client()) {
    ROCKHOPPER_TRY(backend_.wait_for_link());
  } else {
    ROCKHOPPER_TRY(node_->listen(service_id_, kBacklog));
  }
  ROCKHOPPER_TRY(open_channel());
  auto met = establish(exchange_, channel_->qp(), std::min(kExchangeMtu, backend_.path_mtu_max()),
                       {.responder_resources = 1,
                        .initiator_depth = 1,
                        .ack_timeout = static_cast<std::uint8_t>(options_.ack_timeout)});
  channel_->connection = exchange_.connection;
  return met;
}

Expected<void> PerftestRdmaCm::connect_queue_pair(const Agreement& agreement) {
  const auto reads = static_cast<std::uint8_t>(agreement.outstanding_reads);
  return establish(measured_, backend_.queue_pair(0), agreement.path_mtu,
                   {.access_flags = roce::kAccessRemoteWrite | roce::kAccessRemoteRead |
                                    roce::kAccessRemoteAtomic,
                    .responder_resources = reads,
                    .initiator_depth = reads,
                    .ack_timeout = static_cast<std::uint8_t>(options_.ack_timeout)});
}

Expected<void> PerftestRdmaCm::establish(CmConnection& to, roce::QueuePair& qp,
                                         std::uint32_t path_mtu,
                                         const roce::cm::QpParameters& parameters) {
  return is_client() ? connect(to, qp, path_mtu, parameters) : accept(to, qp, parameters);
}

/// Does not wait for the RTU: the client says something next, or the connection's end is seen then.
Expected<void> PerftestRdmaCm::accept(CmConnection& to, roce::QueuePair& qp,
                                      const roce::cm::QpParameters& parameters) {
  const bool first = &to == &exchange_;
  ROCKHOPPER_TRY(wait([&] { return request_ || exchange_.end; },
                      first ? "a client" : "the client's second connection", first));
  if (!request_) return tl::make_unexpected(describe(*exchange_.end));
  to.connection = request_->connection;
  request_.reset();
  return node_->manager().accept(*to.connection, qp, parameters);
}

Expected<roce::AddressVector> PerftestRdmaCm::path_to_server() const {
  const stack::IpAddress server = *stack::IpAddress::parse(options_.host);
  const Endpoint& endpoint = backend_.endpoint();
  ROCKHOPPER_TRY(endpoint.check_peer(server));
  ROCKHOPPER_TRY(auto own, options_.gid_index ? endpoint.addresses()[*options_.gid_index].address
                                              : endpoint.address_of_family(server.is_ipv4()));
  return roce::AddressVector{
      .source = own,
      .destination = server,
      .traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class),
      .service_level = static_cast<std::uint8_t>(options_.service_level)};
}

/// Again and again while nobody answers or listens there: the server may still be starting, and
/// perftest's listens for the second connection only after it has answered the handshake before
/// that.
Expected<void> PerftestRdmaCm::connect(CmConnection& to, roce::QueuePair& qp,
                                       std::uint32_t path_mtu,
                                       const roce::cm::QpParameters& parameters) {
  ROCKHOPPER_TRY(auto path, path_to_server());
  const std::uint64_t end_ns =
      steady_now_ns() + static_cast<std::uint64_t>(options_.endpoint.connect_timeout_s * 1e9);
  const auto late = [end_ns] { return steady_now_ns() > end_ns; };
  bool heard = false;  // from the server's connection manager
  const auto give_up = [&]() -> Expected<void> {
    return fail(ErrorCode::timeout, "{} on RDMA port {} at {} (--connect-timeout)",
                heard ? "nobody listens" : "nobody answers", options_.port, options_.host);
  };
  while (true) {
    const auto header = node_->ip_header(path);
    ROCKHOPPER_TRY(auto asked, node_->manager().connect(qp, {.path = path,
                                                             .pkey_index = node_->pkey_index(),
                                                             .service_id = service_id_,
                                                             .path_mtu = path_mtu,
                                                             .private_data = header,
                                                             .qp = parameters}));
    to = {.connection = asked, .established = false, .end = {}};
    ROCKHOPPER_TRY(
        wait([&] { return to.established || to.end || late(); }, "the server's answer", true));
    if (to.established) return {};
    if (!to.end) return give_up();
    const Event end = *to.end;
    node_->manager().release(*to.connection);
    to = {};
    const bool refused =
        end.type == EventType::rejected && end.reason == RejectReason::invalid_service_id;
    if (!refused && end.type != EventType::unreachable) return tl::make_unexpected(describe(end));
    heard = heard || refused;
    if (late()) return give_up();
    node_->linger(kRetryAfterS);
    if (stop_requested()) return tl::make_unexpected(interrupted());
  }
}

Expected<void> PerftestRdmaCm::send(std::string_view message) {
  if (message.size() > kMessageBytes) {
    return fail(ErrorCode::invalid_argument, "a message of {} bytes is too long", message.size());
  }
  auto status = roce::WcStatus::success;
  const auto room = [&] {
    roce::Completion completion;
    while (status == roce::WcStatus::success && channel_->send_cq().poll({&completion, 1}) == 1) {
      ++acknowledged_;
      status = completion.status;
    }
    return status != roce::WcStatus::success || sent_ - acknowledged_ < kDepth;
  };
  ROCKHOPPER_TRY(wait(room, "room for a message"));
  if (status != roce::WcStatus::success) return tl::make_unexpected(why_exchange_ended(status));
  const auto slot = channel_->send_slot(sent_ % kDepth).first(message.size());
  std::memcpy(slot.data(), message.data(), message.size());
  if (auto posted = channel_->post({.opcode = roce::WrOpcode::send}, slot); !posted) {
    return tl::make_unexpected(exchange_.end ? describe(*exchange_.end) : posted.error());
  }
  ++sent_;
  return {};
}

Expected<std::string> PerftestRdmaCm::receive(std::size_t bytes) {
  roce::Completion completion;
  const auto came = [&] { return channel_->recv_cq().poll({&completion, 1}) == 1; };
  ROCKHOPPER_TRY(wait(came, "the peer's message", true));
  if (completion.status != roce::WcStatus::success) {
    return tl::make_unexpected(why_exchange_ended(completion.status));
  }
  if (completion.byte_len != bytes) {
    return fail(ErrorCode::io, "the peer sent {} bytes where {} were due: is it perftest?",
                completion.byte_len, bytes);
  }
  const auto slot = channel_->receive_slot(completion.wr_id);
  std::string message(reinterpret_cast<const char*>(slot.data()), bytes);
  if (auto posted = channel_->post_receive(completion.wr_id); !posted) {
    // It is the peer's last one, perhaps: who waits for the next one will see.
    take_events();
    if (!exchange_.end) return tl::make_unexpected(posted.error());
  }
  return message;
}

/// A receive that was flushed has its reason elsewhere: the peer has disconnected, or a SEND
/// failed.
Error PerftestRdmaCm::why_exchange_ended(roce::WcStatus status) {
  take_events();
  if (exchange_.end) return describe(*exchange_.end);
  roce::Completion completion;
  while (status == roce::WcStatus::wr_flush_err &&
         channel_->send_cq().poll({&completion, 1}) == 1) {
    status = completion.status;
  }
  return {ErrorCode::io, fmt::format("the connection of perftest's exchange has failed: {}",
                                     roce::to_string(status))};
}

std::optional<Error> PerftestRdmaCm::why_ended() {
  take_events();
  for (const CmConnection* each : {&exchange_, &measured_}) {
    if (each->end) return describe(*each->end);
  }
  return std::nullopt;
}

bool PerftestRdmaCm::peer_closed() {
  node_->manager().poll(backend_.endpoint().now_ns());
  take_events();
  return exchange_.end || measured_.end;
}

void PerftestRdmaCm::disconnect() {
  for (const CmConnection* each : {&measured_, &exchange_}) {
    if (each->connection == nullptr || each->end) continue;
    (void)node_->manager().disconnect(*each->connection);
  }
}

bool PerftestRdmaCm::is_over() const {
  const auto over = [](const CmConnection& each) {
    return each.connection == nullptr || each.connection->state() == State::closed;
  };
  return over(measured_) && over(exchange_);
}

void PerftestRdmaCm::leave() {
  // A server's last message may still have to be repeated.
  if (!is_client()) {
    (void)wait([&] { return exchange_.end && measured_.end; }, "the client's end");
  }
  disconnect();
  (void)wait([&] { return is_over(); }, "the end of TIMEWAIT");
}

/// Connections that are not established cannot be disconnected: their release rejects them.
void PerftestRdmaCm::abandon() {
  bool rejected = false;
  const auto reject = [&](roce::cm::Connection& connection) {
    node_->manager().release(connection);
    rejected = true;
  };
  if (request_) reject(*request_->connection);
  request_.reset();
  for (CmConnection* each : {&measured_, &exchange_}) {
    if (each->connection == nullptr || each->end) continue;
    if (node_->manager().disconnect(*each->connection)) continue;
    reject(*each->connection);
    *each = {};
  }
  if (channel_ != nullptr) channel_->connection = exchange_.connection;
  const std::uint64_t end_ns = steady_now_ns() + kAbandonNs;
  while ((rejected || !is_over()) && steady_now_ns() < end_ns) {
    node_->serve();
    take_events();
  }
}

}  // namespace rockhopper::apps::perf
