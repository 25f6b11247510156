// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/endpoint.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "apps/common/last_words.h"
#include "apps/common/output_file.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "stack/address_table.h"
#include "stack/memif.h"

namespace rockhopper::apps {
namespace {

constexpr std::uint64_t kTurnsPerClock = 256;
/// In front of an IPv4 address, which is kept as ::ffff:a.b.c.d.
constexpr int kMappedBits = 96;

/// Drops that do not happen where both ends fit each other, whatever the network does.
constexpr std::string_view kTellingDrops[] = {
    "ethernet_wrong_vlan", "ip_own_source",    "ip_not_ours",   "duplicate_address",
    "neighbours_failed",   "drop_bad_icrc",    "drop_bad_pkey", "drop_bad_qkey",
    "drop_bad_service",    "drop_bad_address", "drop_malformed"};

}  // namespace

Expected<std::unique_ptr<Endpoint>> Endpoint::create(const EndpointConfig& config,
                                                     const stack::Arguments& arguments) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(config));
  EndpointConfig& own = endpoint->config_;
  if (auto* port = std::get_if<MemifPort>(&own.port); port != nullptr) {
    // Before the EAL starts, which may set the variable that the path follows from.
    ROCKHOPPER_TRY(port->memif.socket, stack::memif_socket(port->memif));
  }
  if (is_standard_output(own.pcap.path)) {
    ROCKHOPPER_TRY(endpoint->capture_file_, claim_standard_output());
    own.pcap.path = "on standard output";
    own.pcap.file = endpoint->capture_file_.get();
  } else {
    ROCKHOPPER_TRY(endpoint->capture_file_, open_fifo(own.pcap.path));
    own.pcap.file = endpoint->capture_file_.get();
  }
  own.keep_waiting = [link = endpoint->link_name(), say_ns = std::uint64_t{0},
                      said = false]() mutable -> Expected<void> {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    const std::uint64_t now_ns = steady_now_ns();
    if (say_ns == 0) say_ns = now_ns + kSayNs;
    if (now_ns >= say_ns && !std::exchange(said, true)) {
      fmt::print(stderr, "waiting for the other end of the link: {}\n", link);
    }
    return {};
  };
  if (own.trace_events) {
    endpoint->events_ = std::make_unique<EventPrinter>(stderr);
    own.engine.trace = endpoint->events_.get();
  }
  ROCKHOPPER_TRY(endpoint->eal_, stack::Eal::start(arguments, {.memory_mb = memory_mb(own)}));
  ROCKHOPPER_TRY(endpoint->node_, Node::open(static_cast<const NodeConfig&>(own)));
  if (!own.pcap.path.empty() && own.faults) {
    fmt::print(stderr,
               "capture: what is on the wire, so without packets lost by --faults "
               "when sending, and with those lost when receiving\n");
  }
  if (own.faults) fmt::print(stderr, "faults: seed={}\n", own.faults->seed);
  return endpoint;
}

Endpoint::~Endpoint() {
  if (node_ == nullptr) return;
  LastWords& words = last_words();
  if (words.drops.empty()) words.drops = telling_drops();
  stack::PcapWriter* capture = node_->links().capture();
  if (capture == nullptr || capture->flush() || !words.incomplete.empty()) return;
  words.incomplete = fmt::format("the capture {} is not complete: {} packets are missing",
                                 config_.pcap.path, capture->counters().lost.value());
}

std::string Endpoint::telling_drops() const {
  std::map<std::string_view, const char*> texts;
  const auto note = [](void* context, const char* name, const char* text) {
    static_cast<std::map<std::string_view, const char*>*>(context)->emplace(name, text);
  };
  stack::Host::describe_counters(note, &texts);
  roce::Engine::describe_counters(note, &texts);
  std::string all;
  visit_counters([&](const char* /*group*/, std::string_view name, std::uint64_t value) {
    if (value == 0 || std::ranges::find(kTellingDrops, name) == std::ranges::end(kTellingDrops)) {
      return;
    }
    all += fmt::format("{}{} x {} ({})", all.empty() ? "" : ", ", value, name, texts[name]);
  });
  return all;
}

bool Endpoint::turn() {
  if (config_.stats_s > 0 && ++turns_ % kTurnsPerClock == 0) print_rates();
  return node_->turn();
}

std::string Endpoint::link_name() const {
  if (const auto* port = std::get_if<MemifPort>(&config_.port); port != nullptr) {
    return fmt::format("memif socket {}, id {}", port->memif.socket, port->memif.id);
  }
  if (const auto* port = std::get_if<DevicePort>(&config_.port); port != nullptr) {
    return port->device.empty() ? "a port of the EAL arguments" : "device " + port->device;
  }
  return std::holds_alternative<UdpPort>(config_.port) ? "UDP sockets" : "the segment";
}

Expected<void> Endpoint::check_peer(const stack::IpAddress& peer) const {
  // The kernel finds the way of the ones, and those at a segment are one port with one address.
  const bool is_ethernet = std::holds_alternative<MemifPort>(config_.port) ||
                           std::holds_alternative<DevicePort>(config_.port);
  if (!is_ethernet || peer.is_multicast()) return {};
  bool has_way = config_.gateway && config_.gateway->is_ipv4() == peer.is_ipv4();
  std::string subnets;
  for (const auto& [address, prefix_length] : config_.addresses) {
    if (address == peer) {
      return fail(ErrorCode::invalid_argument,
                  "both ends have the address {}; give one of them another --ip", peer.to_string());
    }
    if (address.is_ipv4() != peer.is_ipv4()) continue;
    const int mapped = address.is_ipv4() ? kMappedBits : 0;
    has_way = has_way ||
              stack::same_prefix(address, peer, static_cast<std::uint8_t>(prefix_length + mapped));
    subnets +=
        fmt::format("{}{}/{}", subnets.empty() ? "" : ", ", address.to_string(), prefix_length);
  }
  if (has_way) return {};
  return fail(ErrorCode::invalid_argument,
              "no way to {}: it is outside of {}, and there is no --gateway", peer.to_string(),
              subnets.empty() ? "this end's subnets" : subnets);
}

Expected<stack::IpAddress> Endpoint::address_of_family(bool ipv4) const {
  if (auto own = node_->address_of_family(ipv4); own) return own;
  return fail(ErrorCode::not_found, "the peer uses {}, and this end has no such address; add --ip",
              ipv4 ? "IPv4" : "IPv6");
}

void Endpoint::print_statistics(std::FILE* out) const {
  fmt::print(out, "counters that are not 0:\n");
  visit_counters([out](const char* group, const char* name, std::uint64_t value) {
    print_counter(out, group, name, value);
  });
}

void print_counter(std::FILE* out, const char* group, const char* name, std::uint64_t value) {
  if (value != 0) fmt::print(out, "  {:<7} {:<28} {}\n", group, name, value);
}

void Endpoint::print_rates() {
  const std::uint64_t now_ns = steady_now_ns();
  if (now_ns < next_rates_ns_) return;
  const Traffic all = node_->links().traffic();
  if (last_rates_ns_ != 0) {
    const double seconds = static_cast<double>(now_ns - last_rates_ns_) / 1e9;
    const auto rate = [seconds](std::uint64_t now, std::uint64_t before) {
      return static_cast<double>(now - before) / seconds;
    };
    fmt::print(stderr, "tx {:.0f} packets/s {:.3f} Gbit/s, rx {:.0f} packets/s {:.3f} Gbit/s\n",
               rate(all.tx_packets, last_.tx_packets), rate(all.tx_bytes, last_.tx_bytes) * 8e-9,
               rate(all.rx_packets, last_.rx_packets), rate(all.rx_bytes, last_.rx_bytes) * 8e-9);
  }
  last_rates_ns_ = now_ns;
  next_rates_ns_ = now_ns + static_cast<std::uint64_t>(config_.stats_s * 1e9);
  last_ = all;
}

}  // namespace rockhopper::apps
