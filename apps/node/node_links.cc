// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/node_links.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/node/pause.h"
#include "roce/random.h"
#include "roce/udp_identification.h"
#include "stack/memif.h"
#include "stack/time_units.h"

namespace rockhopper {
namespace {

/// In the output queues of the others, and in its ring.
constexpr std::uint32_t kMbufsPerSwitchedLink = 4096;
/// Those that an engine may hold, and a burst.
constexpr std::uint32_t kMbufsForArrivals = 8191;
constexpr std::uint64_t kFirstWaitMs = 20;
constexpr std::uint64_t kLongestWaitMs = 500;

/// The memif driver connects once, and a client may be started together with its server: tries for
/// some seconds. A socket that merely exists may be a dead server's; whether one listens is only
/// found out by the driver, as a connection that is closed again can bring down a DPDK 22.11
/// server.
Expected<std::unique_ptr<stack::Port>> open_memif_client(const stack::PortConfig& port_config,
                                                         const std::string& socket,
                                                         const NodeConfig& config,
                                                         const stack::Clock& clock) {
  const std::uint64_t deadline_ns = clock.now_ns() + config.connect_timeout_ms * kNsPerMs;
  for (std::uint64_t wait_ms = kFirstWaitMs;; wait_ms = std::min(2 * wait_ms, kLongestWaitMs)) {
    if (::access(socket.c_str(), F_OK) == 0) {
      auto port = stack::Port::open(port_config);
      if (port || port.error().code != ErrorCode::io) return port;
    }
    if (config.keep_waiting) ROCKHOPPER_TRY(config.keep_waiting());
    if (clock.now_ns() >= deadline_ns) {
      return fail(ErrorCode::timeout, "no memif server at {}; start the other end first", socket);
    }
    pause_ms(wait_ms);
  }
}

stack::PortConfig port_config(const NodeConfig& config) {
  stack::PortConfig port;
  port.mtu = mtu_of(config);
  port.queues = config.shards;
  return port;
}

std::uint16_t data_room(const NodeConfig& config) {
  return static_cast<std::uint16_t>(
      RTE_ALIGN_CEIL(mtu_of(config) + stack::kFrameOverhead, std::uint32_t{1024}));
}

/// Something stands between the link and the host.
bool is_wrapped(const NodeConfig& config) {
  return !config.pcap.path.empty() || config.faults || config.personality ||
         config.packet_trace != nullptr;
}

Expected<void> check(const NodeConfig& config) {
  const bool one_link = is_wrapped(config);
  if (config.shards > 1 && one_link) {
    return fail(ErrorCode::unsupported,
                "captures, faults, personalities and packet traces are of one link: a node with {} "
                "shards has as many",
                config.shards);
  }
  if (one_link && std::holds_alternative<NoPort>(config.port)) {
    return fail(ErrorCode::unsupported,
                "captures, faults, personalities and packet traces are of a link, which this node "
                "has not");
  }
  if (config.personality && std::holds_alternative<UdpPort>(config.port) &&
      !config.personality->knob_of_headers().empty()) {
    return fail(
        ErrorCode::unsupported,
        "at UDP sockets the kernel writes the headers, so that the knob {} is to be as usual",
        config.personality->knob_of_headers());
  }
  return {};
}

}  // namespace

NodeLinks::~NodeLinks() = default;

Expected<std::unique_ptr<NodeLinks>> NodeLinks::open(const NodeConfig& config, const Place& place) {
  ROCKHOPPER_TRY(check(config));
  std::unique_ptr<NodeLinks> links(new NodeLinks);
  ROCKHOPPER_TRY(links->open_ports(config, *place.clock));
  if (config.shards > 1 && links->any()) ROCKHOPPER_TRY(links->steer(config.shards));
  ROCKHOPPER_TRY(links->wrap(config, place));
  return links;
}

Expected<void> NodeLinks::open_ports(const NodeConfig& config, const stack::Clock& clock) {
  if (const auto* memif = std::get_if<MemifPort>(&config.port); memif != nullptr) {
    return open_memif(config, *memif, clock);
  }
  if (const auto* device = std::get_if<DevicePort>(&config.port); device != nullptr) {
    return open_device(config, *device);
  }
  if (const auto* segment = std::get_if<SegmentPort>(&config.port); segment != nullptr) {
    return open_segment(config, *segment);
  }
  if (std::holds_alternative<UdpPort>(config.port)) return open_udp(config);
  if (const auto* links = std::get_if<LinkPort>(&config.port); links != nullptr) {
    return take_links(config, *links);
  }
  return {};
}

Expected<void> NodeLinks::open_memif(const NodeConfig& config, const MemifPort& port,
                                     const stack::Clock& clock) {
  if (port.links <= 1) {
    ROCKHOPPER_TRY(open_one_memif(config, port, clock));
    use_queues_of(*ports_.front());
    return {};
  }
  if (config.shards > 1) {
    return fail(ErrorCode::unsupported, "a node with several memif links has one shard");
  }
  ROCKHOPPER_TRY(own_pool_, stack::MbufPool::create({.size = kMbufsPerSwitchedLink * port.links,
                                                     .data_room = data_room(config),
                                                     .of_this_process = true}));
  stack::SwitchedLink::Config joined{.pool = own_pool_.get(), .seed = roce::SystemRandom().next()};
  for (std::uint16_t link = 0; link < port.links; ++link) {
    ROCKHOPPER_TRY(open_one_memif(config, port, clock));
    stack::Port& opened = *ports_.back();
    joined.ports.push_back({&opened.queue(0), [&opened] { return opened.link_up(); }});
  }
  switch_ = std::make_unique<stack::SwitchedLink>(joined);
  links_ = {switch_.get()};
  return {};
}

Expected<void> NodeLinks::open_one_memif(const NodeConfig& config, const MemifPort& port,
                                         const stack::Clock& clock) {
  stack::MemifConfig memif = port.memif;
  memif.device = fmt::format("net_memif{}", ports_.size());
  memif.id += static_cast<std::uint32_t>(ports_.size());
  ROCKHOPPER_TRY(memif.socket, stack::memif_socket(memif));
  stack::PortConfig wanted = port_config(config);
  wanted.shared_pool = own_pool_.get();
  ROCKHOPPER_TRY(wanted.devargs, stack::memif_devargs(memif));
  // Several links share the server's socket.
  if (ports_.empty()) ROCKHOPPER_TRY(stack::check_memif_socket(memif));
  ROCKHOPPER_TRY(auto opened, memif.role == stack::MemifRole::client
                                  ? open_memif_client(wanted, memif.socket, config, clock)
                                  : stack::Port::open(wanted));
  ports_.push_back(std::move(opened));
  return {};
}

Expected<void> NodeLinks::open_device(const NodeConfig& config, const DevicePort& port) {
  stack::PortConfig wanted = port_config(config);
  ROCKHOPPER_TRY(stack::set_device(wanted, port.device));
  ROCKHOPPER_TRY(auto opened, stack::Port::open(wanted));
  ports_.push_back(std::move(opened));
  use_queues_of(*ports_.back());
  return {};
}

Expected<void> NodeLinks::open_segment(const NodeConfig& config, const SegmentPort& port) {
  if (config.shards > 1) return fail(ErrorCode::unsupported, "a node at a segment has one shard");
  ROCKHOPPER_TRY(make_pool_for_arrivals(config));
  ROCKHOPPER_TRY(segment_, SegmentEnd::open({.directory = port.directory,
                                             .mtu = mtu_of(config),
                                             .pool = own_pool_.get(),
                                             .wants_icrc = is_wrapped(config)}));
  links_ = {&segment_->link()};
  return {};
}

Expected<void> NodeLinks::open_udp(const NodeConfig& config) {
  if (config.shards > 1) return fail(ErrorCode::unsupported, "a node at UDP sockets has one shard");
  ROCKHOPPER_TRY(make_pool_for_arrivals(config));
  stack::UdpLinkConfig link{.pool = own_pool_.get(),
                            .mtu = mtu_of(config),
                            .seed = roce::SystemRandom().next(),
                            .identification = &roce::kIdentificationRules};
  for (const InterfaceAddress& own : config.addresses) {
    link.addresses.push_back(own.address);
  }
  ROCKHOPPER_TRY(udp_, stack::UdpLink::open(link));
  links_ = {udp_.get()};
  return {};
}

Expected<void> NodeLinks::make_pool_for_arrivals(const NodeConfig& config) {
  ROCKHOPPER_TRY(own_pool_, stack::MbufPool::create({.size = kMbufsForArrivals,
                                                     .data_room = data_room(config),
                                                     .of_this_process = true}));
  return {};
}

Expected<void> NodeLinks::take_links(const NodeConfig& config, const LinkPort& port) {
  if (port.links.size() != config.shards ||
      std::find(port.links.begin(), port.links.end(), nullptr) != port.links.end()) {
    return fail(ErrorCode::invalid_argument, "a node with {} shards needs a link for each, not {}",
                config.shards, port.links.size());
  }
  links_ = port.links;
  return {};
}

void NodeLinks::use_queues_of(stack::Port& port) {
  for (std::uint16_t queue = 0; queue < port.queue_count(); ++queue) {
    links_.push_back(&port.queue(queue));
  }
}

/// Each shard gets what is for it, whichever queue the device put it into: the device is asked to
/// sort by queue pair, and what it does not sort crosses between the lcores.
Expected<void> NodeLinks::steer(std::uint16_t shards) {
  ROCKHOPPER_TRY(rings_, stack::ShardRings::create(shards));
  steering_ = std::make_unique<roce::QpnSteering>(shards);
  for (const stack::FlowRule& rule : steering_->rules()) {
    if (ports_.empty()) break;
    const auto added = ports_.front()->add_flow_rule(rule);
    if (!added && added.error().code == ErrorCode::unsupported) break;
    ROCKHOPPER_TRY(added);
  }
  for (std::uint16_t shard = 0; shard < shards; ++shard) {
    shard_links_.push_back(
        std::make_unique<stack::ShardLink>(*links_[shard], *rings_, *steering_, shard));
    links_[shard] = shard_links_.back().get();
  }
  return {};
}

Expected<void> NodeLinks::wrap(const NodeConfig& config, const Place& place) {
  if (!config.pcap.path.empty()) {
    stack::PcapConfig pcap = config.pcap;
    if (pcap.interface_name.empty() && !name().empty()) {
      pcap.interface_name = name() + " (wire side)";
    }
    if (pcap.time_offset_ns == 0) pcap.time_offset_ns = place.wall_offset_ns;
    ROCKHOPPER_TRY(pcap_, stack::PcapWriter::open(*links_[0], pcap));
    links_[0] = pcap_.get();
  }
  if (config.packet_trace != nullptr) {
    tracer_ = std::make_unique<stack::Tracer>(*links_[0], config.packet_trace);
    links_[0] = tracer_.get();
  }
  if (config.faults) {
    faults_ = std::make_unique<stack::FaultInjector>(*links_[0], place.packet_pool, *config.faults);
    links_[0] = faults_.get();
  }
  if (config.personality) {
    personality_ =
        std::make_unique<PersonalityLink>(*links_[0], place.packet_pool, *config.personality);
    links_[0] = personality_.get();
  }
  return {};
}

std::string NodeLinks::name() const {
  if (!ports_.empty()) return ports_.front()->name();
  if (udp_ != nullptr) return "udp";
  return segment_ != nullptr ? "segment" : "";
}

bool NodeLinks::up() const {
  if (switch_ != nullptr) return switch_->any_up();
  return ports_.empty() || ports_.front()->link_up();
}

std::optional<stack::KernelSocket> NodeLinks::socket_end() const {
  if (udp_ == nullptr) return std::nullopt;
  return udp_->socket_end();
}

void NodeLinks::receive_groups(std::span<const rte_ether_addr> macs) {
  for (const auto& port : ports_) {
    (void)port->set_multicast_macs(macs);
  }
}

void NodeLinks::receive_all_groups() {
  for (const auto& port : ports_) {
    port->receive_all_multicast();
  }
}

bool NodeLinks::omits_icrc() const { return segment_ != nullptr && segment_->omits_icrc(); }

std::uint64_t NodeLinks::line_rate() const {
  return ports_.empty() ? 0 : ports_.front()->link_rate();
}

bool NodeLinks::ipv4_checksum_offload() const {
  return !ports_.empty() && ports_.front()->ipv4_checksum_offload();
}

Traffic NodeLinks::traffic() const {
  Traffic all;
  for (const auto& port : ports_) {
    const auto& counters = port->queue(0).counters();
    all.tx_packets += counters.tx_packets.value();
    all.rx_packets += counters.rx_packets.value();
    all.tx_bytes += counters.tx_bytes.value();
    all.rx_bytes += counters.rx_bytes.value();
  }
  if (segment_ != nullptr) {
    const auto& counters = segment_->link().counters();
    all = {counters.tx_frames.value(), counters.rx_frames.value(), counters.tx_bytes.value(),
           counters.rx_bytes.value()};
  }
  if (udp_ != nullptr) {
    const auto& sent = udp_->sent();
    const auto& received = udp_->received();
    all = {sent.tx_packets.value(), received.rx_packets.value(), sent.tx_bytes.value(),
           received.rx_bytes.value()};
  }
  return all;
}

std::vector<NamedCounters> NodeLinks::counters() const {
  std::vector<NamedCounters> all;
  for (std::size_t number = 0; number < ports_.size(); ++number) {
    all.push_back(NamedCounters::of(switch_ != nullptr ? fmt::format("port{}", number) : "port",
                                    *ports_[number]));
  }
  if (switch_ != nullptr) {
    all.push_back(NamedCounters::of("switch", *switch_));
    const stack::net::LearningSwitch& joined = switch_->learning_switch();
    for (stack::net::PortNumber number = 0; number < joined.port_count(); ++number) {
      all.push_back({fmt::format("switch_port{}", number),
                     [&joined, number](stack::CounterVisitor visit, void* context) {
                       joined.visit_port_counters(number, visit, context);
                     },
                     &stack::net::LearningSwitch::describe_port_counters});
    }
  }
  if (segment_ != nullptr) all.push_back(NamedCounters::of("segment", segment_->link()));
  if (udp_ != nullptr) all.push_back(NamedCounters::of("udp", *udp_));
  for (std::size_t shard = 0; shard < shard_links_.size(); ++shard) {
    all.push_back(NamedCounters::of(fmt::format("shard{}", shard), *shard_links_[shard]));
  }
  if (faults_ != nullptr) all.push_back(NamedCounters::of("faults", *faults_));
  if (personality_ != nullptr) all.push_back(NamedCounters::of("personality", *personality_));
  return all;
}

}  // namespace rockhopper
