// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/connection.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/common/counters.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/common/tcp.h"

namespace rockhopper::apps::dag_node {

Connection::Connection(const ConnectOptions& options, dag::ClientListener& listener,
                       std::uint16_t operations, std::unique_ptr<Endpoint> endpoint)
    : ServiceNode(std::move(endpoint), options.endpoint),
      options_(options),
      listener_(listener),
      operations_(operations),
      ways_(options.servers.size()) {}

Connection::~Connection() { unpublish(); }

Expected<std::unique_ptr<Connection>> Connection::create(const ConnectOptions& options,
                                                         const EndpointConfig& config,
                                                         const stack::Arguments& arguments,
                                                         dag::ClientListener& listener,
                                                         std::uint16_t operations) {
  for (const ServerAddress& server : options.servers) {
    if (auto known = check_host(server.host); !known) {
      return fail(known.error().code, "{}:{}: {}", server.host, server.port, known.error().message);
    }
  }
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  ROCKHOPPER_TRY(endpoint->wait_for_link());
  std::unique_ptr<Connection> connection(
      new Connection(options, listener, operations, std::move(endpoint)));
  ROCKHOPPER_TRY(connection->open_dc());
  return connection;
}

Expected<void> Connection::connect(dag::Placement placement) {
  const auto servers = static_cast<std::uint16_t>(ways_.size());
  for (std::uint16_t server = 0; server < servers; ++server) {
    if (auto connected = connect(server, placement); !connected) {
      const ServerAddress& address = options_.servers[server];
      return fail(connected.error().code, "{}:{}: {}", address.host, address.port,
                  connected.error().message);
    }
  }
  return {};
}

Expected<void> Connection::connect(std::uint16_t server, dag::Placement& placement) {
  ROCKHOPPER_TRY(auto offer, call(server));
  ROCKHOPPER_TRY(choose_path_mtu(offer));
  ROCKHOPPER_TRY(make_client(placement));
  ROCKHOPPER_TRY(auto welcome, greet(server));
  return join(server, welcome);
}

Expected<void> Connection::reconnect(std::uint16_t server) {
  // Without the TCP connection the server withdraws what it had granted.
  ways_[server].channel.reset();
  ROCKHOPPER_TRY(const bool ended,
                 turn_until([&] { return !client_->connected(server); }, timeout_ns()));
  if (!ended) return fail(ErrorCode::timeout, "server {} does not end the connection", server);
  ROCKHOPPER_TRY(auto offer, call(server));
  ROCKHOPPER_TRY(choose_path_mtu(offer));
  ROCKHOPPER_TRY(auto welcome, greet(server));
  return join(server, welcome);
}

Expected<Offer> Connection::call(std::uint16_t server) {
  Way& way = ways_[server];
  way.channel.reset();
  ROCKHOPPER_TRY(
      auto tcp, TcpConnection::connect(options_.servers[server].host, options_.servers[server].port,
                                       endpoint().config().connect_timeout_ms, *this));
  way.channel.emplace(std::move(tcp), *this);
  return way.channel->receive<Offer>("offer", endpoint().config().connect_timeout_ms);
}

Expected<void> Connection::choose_path_mtu(const Offer& offer) {
  const auto most = std::min<std::uint32_t>(path_mtu_max(), offer.path_mtu);
  const std::uint32_t wanted = path_mtu_ != 0           ? path_mtu_
                               : options_.path_mtu != 0 ? options_.path_mtu
                                                        : most;
  if (wanted != offer.path_mtu) {
    return fail(ErrorCode::unsupported, "the server's path MTU is {}, ours {}; give it --mtu {}",
                offer.path_mtu, wanted, wanted);
  }
  path_mtu_ = offer.path_mtu;
  return {};
}

Expected<void> Connection::make_client(dag::Placement& placement) {
  if (client_ != nullptr) return {};
  ROCKHOPPER_TRY(client_,
                 dag::Client::create(engine(), *dc(), std::move(placement), listener_,
                                     {.entries = options_.entries,
                                      .operations = operations_,
                                      .buffer_bytes = options_.buffer_bytes(),
                                      .request_timeout_ns = options_.request_timeout_ns,
                                      .path_mtu = static_cast<roce::PathMtu>(path_mtu_),
                                      .timeout = static_cast<std::uint8_t>(options_.ack_timeout)}));
  return publish("dag_client", "dag", *client_);
}

Expected<Welcome> Connection::greet(std::uint16_t server) {
  ControlChannel& channel = *ways_[server].channel;
  const dc::Dct& target = client_->target(server);
  const Hello hello{.path_mtu = path_mtu_,
                    .gid = endpoint().addresses().front().address,
                    .target = target.number(),
                    .access_key = target.access_key()};
  ROCKHOPPER_TRY(channel.send("hello", fields_to_json(hello)));
  return channel.receive<Welcome>("welcome", endpoint().config().connect_timeout_ms);
}

Expected<void> Connection::join(std::uint16_t server, const Welcome& welcome) {
  ROCKHOPPER_TRY(endpoint().check_peer(welcome.gid));
  Way& way = ways_[server];
  way.path = ServiceNode::path(endpoint().addresses().front().address, welcome.gid);
  way.grant = welcome.grant;
  const std::uint64_t deadline_ns = steady_now_ns() + timeout_ns();
  for (;;) {
    auto connected = client_->connect(server, way.path, way.grant, update_time());
    // Operations of the last connection are still being ended.
    if (connected || connected.error().code != ErrorCode::busy || steady_now_ns() >= deadline_ns) {
      return connected;
    }
    if (stop_requested()) return tl::make_unexpected(interrupted());
    (void)turn();
  }
}

bool Connection::progress(std::uint64_t now_ns) {
  const bool worked = client_ != nullptr && client_->progress(now_ns);
  return (work_ && work_(now_ns)) || worked;
}

nlohmann::json Connection::counters() const {
  return client_ == nullptr ? nlohmann::json::object() : counters_to_json(*client_);
}

}  // namespace rockhopper::apps::dag_node
