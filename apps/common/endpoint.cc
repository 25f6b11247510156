// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/endpoint.h"

#include <variant>

#include <fmt/format.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "stack/memif.h"

namespace rockhopper::apps {
namespace {

constexpr std::uint64_t kTurnsPerClock = 256;

}  // namespace

Expected<std::unique_ptr<Endpoint>> Endpoint::create(const EndpointConfig& config,
                                                     const stack::Arguments& arguments) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(config));
  EndpointConfig& own = endpoint->config_;
  if (auto* port = std::get_if<MemifPort>(&own.port); port != nullptr) {
    // Before the EAL starts, which may set the variable that the path follows from.
    ROCKHOPPER_TRY(port->memif.socket, stack::memif_socket(port->memif));
  }
  own.keep_waiting = []() -> Expected<void> {
    if (stop_requested()) return tl::make_unexpected(interrupted());
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

bool Endpoint::turn() {
  if (config_.stats_s > 0 && ++turns_ % kTurnsPerClock == 0) print_rates();
  return node_->turn();
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
