// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/cm/node.h"

#include <fmt/format.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"

namespace rockhopper::apps::cm {

using roce::cm::Event;
using roce::cm::EventType;
using roce::cm::PortSpace;

namespace {

constexpr std::uint32_t kTurnsPerCheck = 256;

}  // namespace

Expected<std::unique_ptr<Node>> Node::create(Endpoint& endpoint, const Options& options) {
  std::unique_ptr<Node> node(new Node(endpoint, options));
  auto manager = roce::cm::ConnectionManager::create(
      {.engine = &endpoint.engine(),
       .random = &endpoint.random(),
       .response_timeout = static_cast<std::uint8_t>(options.response_timeout),
       .max_retries = static_cast<std::uint8_t>(options.max_retries)});
  if (!manager) return tl::make_unexpected(manager.error());
  node->manager_ = std::move(*manager);
  node->manager_->poll(endpoint.now_ns());
  auto group = stack::add_counter_group("cm", *node->manager_);
  if (!group) return tl::make_unexpected(group.error());
  node->counters_ = std::move(*group);
  return node;
}

void Node::serve() {
  (void)endpoint_.turn();
  manager_->poll(endpoint_.now_ns());
}

Expected<void> Node::wait(const std::function<bool()>& done, std::string_view what, bool forever) {
  const std::uint64_t end_ns =
      forever ? UINT64_MAX : steady_now_ns() + static_cast<std::uint64_t>(options_.timeout_s * 1e9);
  std::uint32_t turns = 0;
  while (!done()) {
    serve();
    if (++turns % kTurnsPerCheck != 0) continue;
    if (stop_requested()) return tl::make_unexpected(interrupted());
    if (!endpoint_.link_alive()) {
      return fail(ErrorCode::io, "the link went down while waiting for {}: the peer has gone",
                  what);
    }
    if (steady_now_ns() > end_ns) {
      return fail(ErrorCode::timeout, "waited {} s for {} (--timeout)", options_.timeout_s, what);
    }
  }
  return {};
}

Expected<Event> Node::wait_event(std::string_view what, bool forever) {
  std::optional<Event> event;
  auto waited = wait(
      [&] {
        event = manager_->poll_event();
        return event.has_value();
      },
      what, forever);
  if (!waited) return tl::make_unexpected(waited.error());
  return *event;
}

void Node::linger(double seconds) {
  const std::uint64_t end_ns = steady_now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  while (steady_now_ns() < end_ns && !stop_requested() && endpoint_.link_alive()) serve();
}

Expected<roce::AddressVector> Node::path_to_server() const {
  const stack::IpAddress server = options_.server();
  auto own = endpoint_.address_of_family(server.is_ipv4());
  if (!own) return tl::make_unexpected(own.error());
  return roce::AddressVector{
      .source = *own,
      .destination = server,
      .traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class)};
}

std::uint64_t Node::service_id() const {
  return roce::cm::ip_service_id(options_.play == Play::udaddy ? PortSpace::udp : PortSpace::tcp,
                                 options_.service_port());
}

Expected<void> Node::listen(std::uint32_t backlog) {
  if (auto listening = manager_->listen(service_id(), backlog); !listening) return listening;
  std::string addresses;
  for (const InterfaceAddress& own : endpoint_.addresses()) {
    addresses += (addresses.empty() ? "" : ", ") + own.address.to_string();
  }
  fmt::print(stderr, "listening on port {} of {}\n", options_.service_port(), addresses);
  return {};
}

std::array<std::uint8_t, roce::cm::IpServiceHeader::kSize> Node::ip_header(
    const roce::AddressVector& path) {
  constexpr std::uint16_t kEphemeral = 0xc000;
  std::array<std::uint8_t, roce::cm::IpServiceHeader::kSize> bytes{};
  const roce::cm::IpServiceHeader header{
      .source_port = static_cast<std::uint16_t>(kEphemeral | endpoint_.random().below(0x4000)),
      .source = path.source,
      .destination = path.destination};
  header.emit(bytes);
  return bytes;
}

roce::cm::QpParameters Node::qp_parameters() const {
  return {.access_flags = roce::kAccessRemoteRead | roce::kAccessRemoteWrite,
          .responder_resources = 1,
          .initiator_depth = 1,
          .ack_timeout = static_cast<std::uint8_t>(options_.ack_timeout)};
}

void Node::print_statistics(std::FILE* out) const {
  endpoint_.print_statistics(out);
  manager_->visit_counters(
      [](void* to, const char* name, std::uint64_t value) {
        if (value != 0) {
          fmt::print(static_cast<std::FILE*>(to), "  {:<7} {:<28} {}\n", "cm", name, value);
        }
      },
      out);
}

Error describe(const Event& event) {
  switch (event.type) {
    case EventType::rejected:
      return {ErrorCode::io,
              fmt::format("the peer rejected the connection: {} (reason {})",
                          wire::cm::to_string(event.reason), static_cast<unsigned>(event.reason))};
    case EventType::unreachable:
      return {ErrorCode::timeout, "no answer from the peer's connection manager"};
    case EventType::connect_error:
      return {ErrorCode::io, "the peer's answer does not fit our queue pair"};
    case EventType::disconnected:
      return {ErrorCode::io, "the peer disconnected too early"};
    case EventType::lookup_failed:
      return event.unreachable
                 ? Error{ErrorCode::timeout, "no answer from the peer's connection manager"}
                 : Error{ErrorCode::io, fmt::format("the peer has no such service: {} (status {})",
                                                    wire::cm::to_string(event.status),
                                                    static_cast<unsigned>(event.status))};
    default:
      return {ErrorCode::io, fmt::format("unexpected event: {}", to_string(event.type))};
  }
}

}  // namespace rockhopper::apps::cm
