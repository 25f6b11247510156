// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/endpoint.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "stack/runtime_directory.h"

namespace rockhopper::apps {
namespace {

constexpr std::uint64_t kTurnsPerClock = 256;
constexpr std::uint64_t kLinkCheckNs = 100 * kNsPerMs;
/// In the output queues of the others, and in its ring.
constexpr std::uint32_t kMbufsPerSwitchedLink = 4096;

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

void pause_ms(std::uint64_t ms) {
  const timespec duration{0, static_cast<long>(ms * kNsPerMs)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
}

/// The memif driver connects once, and a client may be started together with its server: tries for
/// some seconds. A socket that merely exists may be a dead server's; whether one listens is only
/// found out by the driver, as a connection that is closed again can bring down a DPDK 22.11
/// server.
Expected<std::unique_ptr<stack::Port>> open_memif_client(const stack::PortConfig& config,
                                                         const std::string& socket,
                                                         std::uint32_t timeout_ms) {
  const std::uint64_t deadline_ns = steady_now_ns() + timeout_ms * kNsPerMs;
  for (std::uint64_t wait_ms = 20;; wait_ms = std::min<std::uint64_t>(2 * wait_ms, 500)) {
    if (::access(socket.c_str(), F_OK) == 0) {
      auto port = stack::Port::open(config);
      if (port || port.error().code != ErrorCode::io) return port;
    }
    if (stop_requested()) return tl::make_unexpected(interrupted());
    if (steady_now_ns() >= deadline_ns) {
      return fail(ErrorCode::timeout, "no memif server at {}; start the other end first", socket);
    }
    pause_ms(wait_ms);
  }
}

}  // namespace

Expected<std::unique_ptr<Endpoint>> Endpoint::create(const EndpointConfig& config,
                                                     const stack::Arguments& arguments) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(config));
  if (config.memif && config.memif->socket.empty()) {
    // Before the EAL starts, which may set the variable that the directory follows from.
    ROCKHOPPER_TRY(auto directory, stack::runtime_directory());
    endpoint->config_.memif->socket = directory + "/memif.sock";
  }
  ROCKHOPPER_TRY(endpoint->eal_,
                 stack::Eal::start(arguments, {.memory_mb = embedded_memory_mb(config)}));
  endpoint->clock_ = std::make_unique<stack::TscClock>();
  ROCKHOPPER_TRY(endpoint->open_ports());
  ROCKHOPPER_TRY(endpoint->build_links());
  ROCKHOPPER_TRY(endpoint->build_host());
  ROCKHOPPER_TRY(endpoint->build_engine());
  ROCKHOPPER_TRY(endpoint->publish_counters());
  return endpoint;
}

Endpoint::~Endpoint() {
  // Telemetry reads the parts: it must not while they go.
  groups_.clear();
}

Expected<void> Endpoint::open_ports() {
  const auto data_room = std::max<std::uint16_t>(
      RTE_MBUF_DEFAULT_DATAROOM, static_cast<std::uint16_t>(config_.mtu + stack::kFrameOverhead));
  ROCKHOPPER_TRY(packet_pool_, stack::MbufPool::create({.data_room = data_room}));
  stack::PortConfig port_config;
  port_config.mtu = config_.mtu;
  return config_.memif_links > 1 ? open_switched_ports(port_config) : open_port(port_config);
}

Expected<void> Endpoint::open_port(stack::PortConfig port_config) {
  if (config_.memif) {
    auto memif = *config_.memif;
    memif.device = fmt::format("net_memif{}", ports_.size());
    memif.id += static_cast<std::uint32_t>(ports_.size());
    ROCKHOPPER_TRY(port_config.devargs, stack::memif_devargs(memif));
  } else if (is_number(config_.device)) {
    port_config.port_id = static_cast<std::uint16_t>(std::stoul(config_.device.substr(0, 5)));
  } else {
    port_config.devargs = config_.device;
  }
  const bool memif_client = config_.memif && config_.memif->role == stack::MemifRole::client;
  ROCKHOPPER_TRY(auto port, memif_client ? open_memif_client(port_config, config_.memif->socket,
                                                             config_.connect_timeout_ms)
                                         : stack::Port::open(port_config));
  ports_.push_back(std::move(port));
  return {};
}

Expected<void> Endpoint::open_switched_ports(const stack::PortConfig& port_config) {
  const std::uint32_t data_room =
      RTE_ALIGN_CEIL(config_.mtu + stack::kFrameOverhead, std::uint32_t{1024});
  ROCKHOPPER_TRY(switched_pool_,
                 stack::MbufPool::create({.size = kMbufsPerSwitchedLink * config_.memif_links,
                                          .data_room = static_cast<std::uint16_t>(data_room)}));
  stack::SwitchedLink::Config config{.pool = switched_pool_.get(), .seed = random_.next()};
  for (std::uint16_t link = 0; link < config_.memif_links; ++link) {
    stack::PortConfig shared = port_config;
    shared.shared_pool = switched_pool_.get();
    ROCKHOPPER_TRY(open_port(shared));
    stack::Port& port = *ports_.back();
    config.ports.push_back({&port.queue(0), [&port] { return port.link_up(); }});
  }
  switch_ = std::make_unique<stack::SwitchedLink>(config);
  return {};
}

Expected<void> Endpoint::build_links() {
  link_ = switch_ ? static_cast<stack::Link*>(switch_.get()) : &first_port().queue(0);
  if (!config_.pcap.empty()) {
    ROCKHOPPER_TRY(pcap_,
                   stack::PcapWriter::open(*link_, {.path = config_.pcap,
                                                    .interface_name = port_name() + " (wire side)",
                                                    .time_offset_ns = clock_->wall_offset_ns()}));
    link_ = pcap_.get();
    if (config_.faults) {
      fmt::print(stderr,
                 "capture: what is on the wire, so without packets lost by --faults "
                 "when sending, and with those lost when receiving\n");
    }
  }
  if (config_.trace_packets) {
    tracer_ = std::make_unique<stack::Tracer>(*link_, stderr);
    link_ = tracer_.get();
  }
  if (config_.faults) {
    faults_ = std::make_unique<stack::FaultInjector>(*link_, packet_pool_.get(), *config_.faults);
    link_ = faults_.get();
    fmt::print(stderr, "faults: seed={}\n", config_.faults->seed);
  }
  return {};
}

Expected<void> Endpoint::build_host() {
  stack::HostConfig host_config;
  host_config.mac = link_->mac();
  host_config.mtu = config_.mtu;
  host_config.vlan_id = config_.vlan;
  host_config.priorities = config_.priorities;
  host_config.priority_tags = config_.priority_tags;
  host_config.ipv4_checksum_offload = first_port().ipv4_checksum_offload();
  host_config.packet_pool = packet_pool_.get();
  host_config.seed = config_.seed;
  host_config.drop_observer = pcap_.get();
  ROCKHOPPER_TRY(host_, stack::Host::create(host_config));
  for (const InterfaceAddress& item : config_.addresses) {
    ROCKHOPPER_TRY(host_->add_address(item.address, item.prefix_length));
  }
  if (config_.gateway) return host_->set_gateway(*config_.gateway);
  return {};
}

Expected<void> Endpoint::build_engine() {
  if (config_.trace_events) events_ = std::make_unique<EventPrinter>(stderr);
  roce::EngineConfig engine_config;
  engine_config.host = host_.get();
  engine_config.packet_pool = packet_pool_.get();
  engine_config.random = &random_;
  engine_config.pkeys = config_.pkeys;
  engine_config.drop_observer = pcap_.get();
  engine_config.trace = events_.get();
  ROCKHOPPER_TRY(engine_, roce::Engine::create(engine_config));
  worker_ = std::make_unique<stack::Worker>(*link_, *host_, *clock_);
  return {};
}

Expected<void> Endpoint::publish_counters() {
  const auto add = [this](const char* name, const auto& owner) -> Expected<void> {
    ROCKHOPPER_TRY(auto group, stack::add_counter_group(name, owner));
    groups_.push_back(std::move(group));
    return {};
  };
  for (NamedCounters& counters : port_counters()) {
    ROCKHOPPER_TRY(auto group,
                   stack::CounterGroup::add(std::move(counters.group), std::move(counters.visit)));
    groups_.push_back(std::move(group));
  }
  if (faults_) ROCKHOPPER_TRY(add("faults", *faults_));
  ROCKHOPPER_TRY(add("host", *host_));
  return add("engine", *engine_);
}

std::vector<Endpoint::NamedCounters> Endpoint::port_counters() const {
  std::vector<NamedCounters> all;
  for (std::size_t number = 0; number < ports_.size(); ++number) {
    all.push_back({switch_ ? fmt::format("port{}", number) : "port",
                   [&port = *ports_[number]](stack::CounterVisitor visit, void* context) {
                     port.visit_counters(visit, context);
                   }});
  }
  if (!switch_) return all;
  all.push_back({"switch", [this](stack::CounterVisitor visit, void* context) {
                   switch_->visit_counters(visit, context);
                 }});
  const stack::net::LearningSwitch& joined = switch_->learning_switch();
  for (stack::net::PortNumber number = 0; number < joined.port_count(); ++number) {
    all.push_back({fmt::format("switch_port{}", number),
                   [&joined, number](stack::CounterVisitor visit, void* context) {
                     joined.visit_port_counters(number, visit, context);
                   }});
  }
  return all;
}

bool Endpoint::turn() {
  if (host_->groups_generation() != groups_generation_) [[unlikely]] {
    groups_generation_ = host_->groups_generation();
    for (const auto& port : ports_) (void)port->set_multicast_macs(host_->group_macs());
  }
  if (config_.stats_s > 0 && ++turns_ % kTurnsPerClock == 0) print_rates();
  const bool worked = worker_->poll_once();
  if (idler_.is_time(worked)) {
    const std::uint64_t now_ns = clock_->now_ns();
    idler_.rest(std::max(worker_->next_deadline_ns(), now_ns) - now_ns);
  }
  return worked;
}

Expected<void> Endpoint::wait_for_link() {
  const std::uint64_t deadline_ns = steady_now_ns() + config_.connect_timeout_ms * kNsPerMs;
  while (!link_up()) {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    if (steady_now_ns() >= deadline_ns) {
      return fail(ErrorCode::timeout, "{}: no link after {} s; is the other end running{}",
                  port_name(), config_.connect_timeout_ms / 1000.0,
                  config_.memif ? ", on the same memif socket and in the other role?" : "?");
    }
    (void)worker_->poll_once();
    pause_ms(1);
  }
  was_up_ = link_alive_ = true;
  return {};
}

bool Endpoint::link_alive() {
  const std::uint64_t now_ns = steady_now_ns();
  // One that was down is looked at each time: a peer that has just joined has not gone.
  if (now_ns >= next_link_check_ns_ || !link_alive_) {
    next_link_check_ns_ = now_ns + kLinkCheckNs;
    link_alive_ = link_up();
    was_up_ = was_up_ || link_alive_;
    if (was_up_) {
      engine_->set_port_state(link_alive_ ? roce::PortState::active : roce::PortState::down);
    }
  }
  return link_alive_ || !was_up_;
}

Expected<stack::IpAddress> Endpoint::address_of_family(bool ipv4) const {
  for (const InterfaceAddress& item : config_.addresses) {
    if (item.address.is_ipv4() == ipv4) return item.address;
  }
  return fail(ErrorCode::not_found, "the peer uses {}, and this end has no such address; add --ip",
              ipv4 ? "IPv4" : "IPv6");
}

void Endpoint::visit_counters(const CounterVisit& visit) const {
  struct Context {
    const CounterVisit& to;
    const char* group;
  };
  const auto forward = [](void* context, const char* name, std::uint64_t value) {
    const auto& at = *static_cast<const Context*>(context);
    at.to(at.group, name, value);
  };
  Context context{visit, nullptr};
  for (const NamedCounters& counters : port_counters()) {
    context.group = counters.group.c_str();
    counters.visit(forward, &context);
  }
  if (faults_) {
    context.group = "faults";
    faults_->visit_counters(forward, &context);
  }
  context.group = "host";
  host_->visit_counters(forward, &context);
  context.group = "engine";
  engine_->visit_counters(forward, &context);
  if (pcap_) {
    visit("pcap", "packets", pcap_->counters().packets.value());
    visit("pcap", "lost", pcap_->counters().lost.value());
  }
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
  std::uint64_t sent = 0, received = 0, sent_bytes = 0, received_bytes = 0;
  for (const auto& port : ports_) {
    const auto& counters = port->queue(0).counters();
    sent += counters.tx_packets.value();
    received += counters.rx_packets.value();
    sent_bytes += counters.tx_bytes.value();
    received_bytes += counters.rx_bytes.value();
  }
  if (last_rates_ns_ != 0) {
    const double seconds = static_cast<double>(now_ns - last_rates_ns_) / 1e9;
    const auto rate = [seconds](std::uint64_t now, std::uint64_t before) {
      return static_cast<double>(now - before) / seconds;
    };
    fmt::print(stderr, "tx {:.0f} packets/s {:.3f} Gbit/s, rx {:.0f} packets/s {:.3f} Gbit/s\n",
               rate(sent, last_sent_), rate(sent_bytes, last_sent_bytes_) * 8e-9,
               rate(received, last_received_), rate(received_bytes, last_received_bytes_) * 8e-9);
  }
  last_rates_ns_ = now_ns;
  next_rates_ns_ = now_ns + static_cast<std::uint64_t>(config_.stats_s * 1e9);
  last_sent_ = sent;
  last_received_ = received;
  last_sent_bytes_ = sent_bytes;
  last_received_bytes_ = received_bytes;
}

}  // namespace rockhopper::apps
