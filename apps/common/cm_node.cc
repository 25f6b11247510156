// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/cm_node.h"

#include <string>

#include <fmt/format.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"

namespace rockhopper::apps {

using roce::cm::Event;
using roce::cm::EventType;

namespace {

constexpr std::uint32_t kTurnsPerCheck = 32;

}  // namespace

Expected<std::unique_ptr<CmNode>> CmNode::create(Endpoint& endpoint, const CmNodeConfig& config) {
  std::unique_ptr<CmNode> node(new CmNode(endpoint, config));
  ROCKHOPPER_TRY(node->open());
  return node;
}

Expected<void> CmNode::open() {
  ROCKHOPPER_TRY(manager_,
                 roce::cm::ConnectionManager::create({.engine = &endpoint_.engine(),
                                                      .random = &endpoint_.random(),
                                                      .response_timeout = config_.response_timeout,
                                                      .max_retries = config_.max_retries}));
  manager_->poll(endpoint_.now_ns());
  ROCKHOPPER_TRY(counters_, stack::add_counter_group("cm", *manager_));
  return {};
}

void CmNode::serve() {
  (void)background_->turn();
  manager_->poll(endpoint_.now_ns());
}

Expected<void> CmNode::wait(const std::function<bool()>& done, std::string_view what, bool forever,
                            bool needs_link) {
  const std::uint64_t end_ns =
      forever ? UINT64_MAX : steady_now_ns() + static_cast<std::uint64_t>(config_.timeout_s * 1e9);
  std::uint32_t turns = 0;
  while (!done()) {
    serve();
    if (++turns % kTurnsPerCheck != 0) continue;
    if (stop_requested()) return tl::make_unexpected(interrupted());
    if (!endpoint_.link_alive() && needs_link) {
      return fail(ErrorCode::io, "the link went down while waiting for {}: the peer has gone",
                  what);
    }
    if (steady_now_ns() > end_ns) {
      return fail(ErrorCode::timeout, "waited {} s for {} (--timeout)", config_.timeout_s, what);
    }
  }
  return {};
}

Expected<Event> CmNode::wait_event(std::string_view what, bool forever) {
  std::optional<Event> event;
  ROCKHOPPER_TRY(wait(
      [&] {
        event = manager_->poll_event();
        return event.has_value();
      },
      what, forever, !forever));
  return *event;
}

void CmNode::linger(double seconds) {
  const std::uint64_t end_ns = steady_now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  while (steady_now_ns() < end_ns && !stop_requested() && endpoint_.link_alive()) {
    serve();
  }
}

Expected<void> CmNode::listen(std::uint64_t service_id, std::uint32_t backlog,
                              roce::cm::Capabilities offer) {
  ROCKHOPPER_TRY(manager_->listen(service_id, backlog, offer));
  std::string addresses;
  for (const InterfaceAddress& own : endpoint_.addresses()) {
    addresses += (addresses.empty() ? "" : ", ") + own.address.to_string();
  }
  fmt::print(stderr, "listening on port {} of {}\n", roce::cm::port_of(service_id), addresses);
  return {};
}

std::array<std::uint8_t, roce::cm::IpServiceHeader::kSize> CmNode::ip_header(
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

void CmNode::print_statistics(std::FILE* out) const {
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

}  // namespace rockhopper::apps
