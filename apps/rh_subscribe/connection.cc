// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/connection.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/common/counters.h"
#include "apps/common/steady_clock.h"
#include "apps/common/tcp.h"
#include "apps/rh_publish/proof.h"

namespace rockhopper::apps::subscribe {
namespace {

using publish::Challenge;
using publish::Hello;
using publish::Side;
using publish::Welcome;

constexpr std::uint8_t kRetries = 7;
constexpr std::uint16_t kSubscriptionsMax = 64;
/// For requests that find no buffer for a moment: 10 us.
constexpr std::uint8_t kMinRnrTimer = 1;
/// A look at the clock takes longer than a turn without work.
constexpr std::uint64_t kTurnsPerClock = 4;

}  // namespace

Connection::Connection(const Options& options, publisher::SubscriberListener& listener,
                       std::unique_ptr<Endpoint> endpoint)
    : options_(options), listener_(listener), endpoint_(std::move(endpoint)) {}

Connection::~Connection() {
  counters_.reset();
  drop_queue_pair();
  subscriber_.reset();
}

Expected<std::unique_ptr<Connection>> Connection::create(const Options& options,
                                                         const EndpointConfig& config,
                                                         const stack::Arguments& arguments,
                                                         publisher::SubscriberListener& listener) {
  ROCKHOPPER_TRY(check_host(options.host));
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  ROCKHOPPER_TRY(endpoint->wait_for_link());
  return std::unique_ptr<Connection>(new Connection(options, listener, std::move(endpoint)));
}

void Connection::drop_queue_pair() {
  if (qp_ != nullptr) endpoint_->engine().destroy_qp(std::exchange(qp_, nullptr));
}

Expected<void> Connection::connect() {
  channel_.reset();
  drop_queue_pair();
  ROCKHOPPER_TRY(auto tcp, TcpConnection::connect(options_.host, options_.port,
                                                  endpoint_->config().connect_timeout_ms, *this));
  channel_.emplace(std::move(tcp), *this);
  ROCKHOPPER_TRY(auto received, channel_->receive("challenge"));
  ROCKHOPPER_TRY(auto challenge, publish::challenge_from_json(received));
  ROCKHOPPER_TRY(path_mtu_, choose_path_mtu(challenge));
  ROCKHOPPER_TRY(make_subscriber(challenge));
  ROCKHOPPER_TRY(auto own, make_side());
  ROCKHOPPER_TRY(auto welcome, greet(own, received));
  return join(own, welcome.side);
}

Expected<std::uint16_t> Connection::choose_path_mtu(const Challenge& challenge) {
  if (options_.path_mtu > challenge.path_mtu) {
    return fail(ErrorCode::unsupported, "the publisher's path MTU is {}; --mtu {} is more",
                challenge.path_mtu, options_.path_mtu);
  }
  const auto path_mtu = static_cast<std::uint16_t>(
      options_.path_mtu != 0
          ? options_.path_mtu
          : std::min<std::uint32_t>(challenge.path_mtu, endpoint_->engine().max_path_mtu()));
  // With dynamic connections each end has one for all its peers.
  if (challenge.transport == Transport::dc && path_mtu != challenge.path_mtu) {
    return fail(ErrorCode::unsupported, "the publisher's path MTU is {}, ours {}; give it --mtu {}",
                challenge.path_mtu, path_mtu, path_mtu);
  }
  return path_mtu;
}

Expected<void> Connection::make_subscriber(const Challenge& challenge) {
  if (subscriber_ != nullptr) {
    if (challenge.transport == transport_) return {};
    return fail(ErrorCode::unsupported, "the publisher has another --transport than before");
  }
  transport_ = challenge.transport;
  if (transport_ == Transport::dc) {
    ROCKHOPPER_TRY(auto dc, DcEndpoint::create(endpoint_->engine()));
    dc_.emplace(std::move(dc));
    path_mtu_ =
        static_cast<std::uint16_t>(std::min<std::uint32_t>(path_mtu_, (*dc_)->max_path_mtu()));
  }
  publisher::SubscriberConfig config;
  config.max_subscriptions = kSubscriptionsMax;
  config.path_mtu = static_cast<roce::PathMtu>(path_mtu_);
  config.timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  config.multicast_pkey_index = options_.endpoint.pkey_index;
  if (options_.no_multicast) config.multicast_buffers = 0;
  ROCKHOPPER_TRY(subscriber_,
                 publisher::Subscriber::create(endpoint_->engine(), dc_ ? dc_->get() : nullptr,
                                               listener_, config));
  ROCKHOPPER_TRY(counters_, stack::add_counter_group("subscriber", *subscriber_));
  return {};
}

Expected<Side> Connection::make_side() {
  Side side{.gid = endpoint_->addresses().front().address};
  if (dc_) {
    side.qpn = subscriber_->target()->number().value;
    side.access_key = subscriber_->target()->access_key();
    return side;
  }
  ROCKHOPPER_TRY(qp_, endpoint_->engine().create_qp(subscriber_->qp_init()));
  side.qpn = qp_->number().value;
  side.psn = endpoint_->engine().random_psn().value;
  return side;
}

Expected<Welcome> Connection::greet(const Side& side, const nlohmann::json& challenge) {
  ROCKHOPPER_TRY(auto nonce, publish::make_nonce());
  nlohmann::json hello = publish::to_json(
      Hello{.name = options_.name, .nonce = std::move(nonce), .path_mtu = path_mtu_, .side = side});
  if (!options_.secret.empty()) publish::add_proof(hello, options_.secret, challenge);
  ROCKHOPPER_TRY(channel_->send("hello", hello));
  ROCKHOPPER_TRY(auto welcome, channel_->receive("welcome"));
  if (!options_.secret.empty() && !publish::has_proof(welcome, options_.secret, challenge, hello)) {
    return fail(ErrorCode::invalid_argument,
                "the publisher does not prove that it knows the secret of {}", options_.name);
  }
  return publish::welcome_from_json(welcome);
}

Expected<void> Connection::join(const Side& own, const Side& remote) {
  const auto traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class);
  const roce::AddressVector path{
      .source = own.gid, .destination = remote.gid, .traffic_class = traffic_class};
  if (dc_) {
    return subscriber_->connect(dc::TargetAddress{
        .av = path, .number = wire::Qpn::make(remote.qpn), .access_key = remote.access_key});
  }
  roce::QpAttributes attributes;
  attributes.pkey_index = options_.endpoint.pkey_index;
  attributes.path_mtu = static_cast<roce::PathMtu>(path_mtu_);
  attributes.dest_qp_num = wire::Qpn::make(remote.qpn);
  attributes.rq_psn = wire::Psn::make(remote.psn);
  attributes.sq_psn = wire::Psn::make(own.psn);
  attributes.max_rd_atomic = publisher::Subscriber::kReads;
  attributes.min_rnr_timer = kMinRnrTimer;
  attributes.ah_attr = path;
  attributes.timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  attributes.retry_cnt = attributes.rnr_retry = kRetries;
  ROCKHOPPER_TRY(qp_->bring_up(attributes, roce::QpState::rts));
  return subscriber_->connect(*qp_);
}

Expected<bool> Connection::poll_end() {
  ROCKHOPPER_TRY(auto message, channel_->poll());
  return message.has_value() && message->type == "end";
}

void Connection::give_up() {
  if (qp_ == nullptr) return;
  const roce::QpAttributes error{.qp_state = roce::QpState::err};
  (void)qp_->modify(error, roce::kQpState);
}

bool Connection::turn() {
  bool worked = endpoint_->turn();
  if (turns_++ % kTurnsPerClock == 0) now_ns_ = endpoint_->now_ns();
  if (subscriber_ != nullptr) worked = subscriber_->progress(now_ns_) || worked;
  return worked;
}

std::uint64_t Connection::timeout_ns() const {
  return endpoint_->config().connect_timeout_ms * kNsPerMs;
}

nlohmann::json Connection::counters() const {
  return subscriber_ == nullptr ? nlohmann::json::object() : counters_to_json(*subscriber_);
}

void Connection::print_statistics(std::FILE* out) const {
  endpoint_->print_statistics(out);
  if (dc_) dc_->print_statistics(out);
  if (subscriber_ == nullptr) return;
  print_counters(out, "subscriber", *subscriber_);
}

}  // namespace rockhopper::apps::subscribe
