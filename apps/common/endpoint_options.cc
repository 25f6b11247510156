// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/endpoint_options.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <variant>

#include "apps/common/idle.h"
#include "apps/common/personality_file.h"
#include "roce/pkey_table.h"
#include "roce/random.h"
#include "stack/kernel_addresses.h"
#include "stack/net/learning_switch.h"
#include "stack/port.h"
#include "stack/quantity.h"
#include "stack/split_list.h"

namespace rockhopper::apps {
namespace {

/// A switch has one more port, the program's own.
constexpr int kMemifLinksMax = stack::net::kPortsMax - 1;

/// What --device calls a segment of shared memory.
constexpr std::string_view kSegment = "segment";
/// And sockets of the kernel.
constexpr std::string_view kUdp = "udp";

/// IPv4 and IPv6 addresses of the two ends of a link without --ip.
std::vector<InterfaceAddress> default_addresses(Role role) {
  constexpr std::uint32_t kServer = (10u << 24) + (42u << 16) + 1;
  stack::IpAddress ipv6 = *stack::IpAddress::parse("fd42::1");
  if (role == Role::client) ipv6.bytes[15] = 2;
  return {{stack::IpAddress::from_ipv4(role == Role::server ? kServer : kServer + 1), 24},
          {ipv6, 64}};
}

Expected<std::vector<InterfaceAddress>> parse_addresses(const std::vector<std::string>& texts) {
  std::vector<InterfaceAddress> addresses;
  for (const std::string& text : texts) {
    const auto address = InterfaceAddress::parse(text);
    if (!address) return fail(ErrorCode::invalid_argument, "--ip {}", address.error().message);
    addresses.push_back(*address);
  }
  return addresses;
}

stack::MemifConfig memif_config(const EndpointOptions& options, Role role) {
  stack::MemifConfig memif;
  const bool server = options.memif_role ? *options.memif_role == "server" : role == Role::server;
  memif.role = server ? stack::MemifRole::server : stack::MemifRole::client;
  memif.socket = options.memif_socket;
  memif.id = options.memif_id;
  return memif;
}

void add_device_options(const OptionSet& app, EndpointOptions& options) {
  app.add_option("--reserved-opcodes", options.reserved_opcodes,
                 "what an opcode that IBTA reserves gets on a reliable connection: nak, which "
                 "ends it, or drop")
      .one_of({"nak", "drop"});
  app.add_option("--credits", options.credits,
                 "whether requests wait for the receive requests that the peer has told of "
                 "(end-to-end credits)")
      .one_of({"obey", "ignore"});
  app.add_option("--tell-credits", options.tell_credits,
                 "what the peer is told of receive requests here: how many (count), or that it "
                 "is not limited")
      .one_of({"count", "unlimited"});
  app.add_option("--cnp-dscp", options.cnp_dscp, "DSCP of congestion notifications (CNP)")
      .range(0, 63);
  app.add_option("--cnp-priority", options.cnp_priority,
                 "their service level: the tag's priority with --trust pcp")
      .range(0, 7);
  app.add_option("--cnp-interval MICROSECONDS", options.cnp_interval_us,
                 "least time between two of them")
      .range(0.0, 1e6);
  app.add_option("--cnp-scope", options.cnp_scope,
                 "for what that time counts: a queue pair, a host that is told, or the port")
      .one_of({"qp", "destination", "port"});
  app.add_option("--line-rate RATE", options.line_rate,
                 "of the link (25Gbit), where DCQCN begins. Default: what a device says, else "
                 "100Gbit");
  app.add_option("--personality NAME|FILE[,KNOB=VALUE]...", options.personality,
                 "look and behave like another device, as mlx5-cx5 or e810,credits=static:4");
}

}  // namespace

void add_endpoint_options(const OptionSet& app, EndpointOptions& options,
                          const std::string& device_names) {
  const OptionSet network = app.group("Network");
  network.add_option(device_names + " DEVARGS|ID", options.device,
                     "DPDK port: devargs to plug (net_af_packet0,iface=eth1), the name of a device "
                     "that the EAL has found, or a port number; segment: shared memory with all "
                     "programs of this user; or udp: sockets of the kernel on port 4791. Default: "
                     "a memif link, or port 0 with EAL arguments");
  network
      .add_option(
          "--ip ADDR/LEN", options.ip,
          "own address, IPv4 or IPv6; may be repeated. Default: 10.42.0.1/24 and fd42::1/64 "
          "for a server and at a segment, .2 for a client; with udp, those of this machine")
      .one_value_each();
  network.add_option("--gateway ADDR", options.gateway, "next hop for other networks");
  network.add_option("--vlan ID", options.vlan, "send and take frames with this VLAN id only")
      .range(1, 4094);
  network
      .add_option(
          "--trust", options.trust,
          "where the priority of a frame's tag comes from: pcp, the service level, or dscp, "
          "the traffic class")
      .one_of({"pcp", "dscp"});
  network.add_option(
      "--dscp-priority MAP", options.dscp_priorities,
      "priorities of DSCPs with --trust dscp (26=3,46=5,8-15=1). Default: the DSCP's "
      "upper three bits");
  network.add_flag("--priority-tags", options.priority_tags,
                   "without --vlan: send frames with a tag of VLAN id 0, for its priority");
  network
      .add_option("--tclass,--traffic-class", options.traffic_class,
                  "traffic class of what is sent: DSCP times 4")
      .range(0, 255);
  network.add_option("--pkeys LIST", options.pkeys,
                     "the port's P_Key table from index 0 on (0xffff,0x8001). Default: 0xffff, the "
                     "default partition");
  network.add_option("--pkey-index,--pkey_index INDEX", options.pkey_index,
                     "the partition to talk in: an index of the P_Key table");
  network
      .add_option(
          "--link-mtu BYTES", options.link_mtu,
          "largest IP packet in bytes: the path MTU and 80 for headers. Default: 4300 on the "
          "memif link, else 1500, or what the path MTU asked for needs")
      .range(576, static_cast<int>(stack::kMtuMax));
  network
      .add_option("--memif-role ROLE", options.memif_role,
                  "end of the memif link: one process is server, the other client")
      .one_of({"server", "client"});
  network.add_option(
      "--memif-socket PATH", options.memif_socket,
      "socket of the memif link. Default: memif.sock in the user's runtime directory");
  network.add_option("--memif-id N", options.memif_id, "number of the link on that socket");
  network
      .add_option(
          "--memif-links N", options.memif_links,
          "of a server: so many links on that socket, with ids from --memif-id on, each for "
          "another program; they reach each other, too")
      .range(1, kMemifLinksMax);
  add_seconds_option(
      network, "--connect-timeout", options.connect_timeout_s,
      "how long to wait for the other end: its memif socket, its link, its TCP port");
  add_idle_option(network, options.idle);
  add_device_options(app.group("What devices do in different ways"), options);
  const OptionSet observation = app.group("Observation and faults");
  observation.add_option(
      "--pcap FILE", options.pcap,
      "capture to a pcapng file what is on the wire: behind --faults when sending, "
      "before them when receiving; dropped packets carry the reason as a comment. - is standard "
      "output; what else is printed there then goes to standard error");
  observation.add_option("--faults SPEC", options.faults,
                         "impair the link, as loss=1%,dup=1%,reorder=5%:2ms or "
                         "delay=1ms,rate=1Gbit,rx.corrupt=0.1% or profile=P2");
  observation
      .add_option("--trace WHAT", options.trace,
                  "print packets, events of queue pairs, or all (stderr)")
      .one_of({"packets", "events", "all"});
  observation.add_option(
      "--seed N", options.seed,
      "of test data and faults. Default: random, printed when faults are asked for");
  add_seconds_option(
      observation, "--stats", options.stats_s,
      "print packet rates every so many seconds, and all counters at the end (stderr)");
}

Option add_path_mtu_option(const OptionSet& app, std::uint16_t& target, std::string_view help) {
  return app.add_option("-m,--mtu BYTES", target, help).one_of({256, 512, 1024, 2048, 4096});
}

Option add_path_mtu_option(const OptionSet& app, std::optional<std::uint16_t>& target,
                           std::string_view help) {
  return app.add_option("-m,--mtu BYTES", target, help).one_of({256, 512, 1024, 2048, 4096});
}

Option add_ack_timeout_option(const OptionSet& app, std::string_view names, unsigned& target) {
  return app.add_option(names, target, "local ACK timeout code: 4.096 us * 2^code").range(1, 31);
}

Option add_seconds_option(const OptionSet& app, std::string_view name, double& target,
                          std::string_view help) {
  return app.add_option(std::string(name) + " SECONDS", target, help).range(0.1, 86400.0);
}

Expected<std::vector<std::uint16_t>> parse_pkeys(std::string_view text) {
  std::vector<std::uint16_t> pkeys;
  ROCKHOPPER_TRY(stack::split_list(text, [&](std::string_view item) -> Expected<void> {
    const bool hex = item.starts_with("0x") || item.starts_with("0X");
    const std::string_view digits = item.substr(hex ? 2 : 0);
    std::uint16_t pkey = 0;
    const char* last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, pkey, hex ? 16 : 10);
    if (error != std::errc{} || end != last) {
      return fail(ErrorCode::invalid_argument,
                  "--pkeys {}: P_Keys are 0x0001 to 0xffff with commas between, and 0 is an empty "
                  "entry",
                  text);
    }
    pkeys.push_back(pkey);
    return {};
  }));
  return pkeys;
}

namespace {

/// The port's P_Keys, and that the one to use is there.
Expected<void> set_partitions(const EndpointOptions& options, EndpointConfig& config) {
  if (!options.pkeys.empty()) {
    ROCKHOPPER_TRY(config.engine.pkeys, parse_pkeys(options.pkeys));
  }
  auto table = roce::PkeyTable::create(config.engine.pkeys);
  if (!table) return fail(ErrorCode::invalid_argument, "--pkeys: {}", table.error().message);
  if (auto pkey = table->valid_at(options.pkey_index); !pkey) {
    return fail(ErrorCode::invalid_argument, "--pkey-index {}: {}; see --pkeys", options.pkey_index,
                pkey.error().message);
  }
  return {};
}

Expected<void> set_priorities(const EndpointOptions& options, EndpointConfig& config) {
  stack::PriorityMap& priorities = config.host.priorities;
  ROCKHOPPER_TRY(priorities.trust, stack::parse_trust(options.trust));
  config.host.priority_tags = options.priority_tags;
  if (options.dscp_priorities.empty()) return {};
  auto parsed = stack::parse_dscp_priorities(options.dscp_priorities, priorities.of_dscp);
  if (!parsed) {
    return fail(ErrorCode::invalid_argument, "--dscp-priority: {}", parsed.error().message);
  }
  return {};
}

Expected<void> set_habits(const EndpointOptions& options, roce::EngineConfig& engine) {
  engine.nak_reserved_opcodes = options.reserved_opcodes == "nak";
  engine.credits = {.obey = options.credits == "obey", .count = options.tell_credits == "count"};
  engine.cnp.dscp = static_cast<std::uint8_t>(options.cnp_dscp);
  engine.cnp.priority = static_cast<std::uint8_t>(options.cnp_priority);
  engine.cnp.min_time_between_ns = static_cast<std::uint64_t>(options.cnp_interval_us * 1e3);
  engine.cnp.scope = parse_cnp_scope(options.cnp_scope).value_or(engine.cnp.scope);
  if (!options.line_rate.empty() &&
      (!stack::parse_rate(options.line_rate, engine.line_rate) || engine.line_rate == 0)) {
    return fail(ErrorCode::invalid_argument, "--line-rate {}: a rate as 25Gbit is expected",
                options.line_rate);
  }
  return {};
}

/// The addresses of this machine, unless some of them are chosen, and what fits their interfaces.
/// The kernel knows their prefixes, and those of the loopback device will do.
Expected<void> set_kernel_addresses(const std::vector<std::string>& texts, EndpointConfig& config) {
  for (const std::string& text : texts) {
    const auto address = stack::IpAddress::parse(text.substr(0, text.find('/')));
    if (!address) return fail(ErrorCode::invalid_argument, "--ip {}: not an IP address", text);
    config.addresses.push_back({*address, 0});
  }
  if (config.addresses.empty()) {
    for (const stack::DeviceAddress& own : stack::kernel_addresses()) {
      // One of those is of no use without its interface.
      if (!own.address.is_ipv4() && own.address.is_link_local()) continue;
      config.addresses.push_back({own.address, 0});
    }
  }
  if (config.addresses.empty()) {
    return fail(ErrorCode::not_found,
                "--device udp: no interface has an address but the loopback device; --ip "
                "127.0.0.1 takes that");
  }
  config.mtu = kMemifMtu;
  for (const InterfaceAddress& own : config.addresses) {
    config.mtu = stack::limit_mtu(config.mtu, own.address);
  }
  return {};
}

/// Where the packets go: the device that the user names, a port of his EAL, or a memif link.
Expected<NodePort> make_port(const EndpointOptions& options, const EndpointUse& use) {
  const bool memif_given = options.memif_role || !options.memif_socket.empty();
  if (!options.device.empty() && memif_given) {
    return fail(ErrorCode::invalid_argument, "--memif-role and --memif-socket exclude --device");
  }
  const bool device = !options.device.empty() || (use.use_eal_ports && !memif_given);
  const stack::MemifConfig memif = memif_config(options, use.role);
  if (options.memif_links > 1 && (device || memif.role != stack::MemifRole::server)) {
    return fail(ErrorCode::invalid_argument, "--memif-links is for the server of a memif socket");
  }
  if (options.device == kSegment) return SegmentPort{};
  if (options.device == kUdp) {
    if (!options.gateway.empty() || options.vlan || options.priority_tags) {
      return fail(ErrorCode::invalid_argument,
                  "--gateway, --vlan and --priority-tags exclude --device udp, whose packets the "
                  "kernel sends");
    }
    return UdpPort{};
  }
  if (!device) return MemifPort{.memif = memif, .links = options.memif_links};
  return DevicePort{options.device.empty() ? "0" : options.device};
}

}  // namespace

Expected<EndpointConfig> make_endpoint_config(const EndpointOptions& options,
                                              const EndpointUse& use) {
  EndpointConfig config;
  ROCKHOPPER_TRY(config.port, make_port(options, use));
  if (std::holds_alternative<UdpPort>(config.port)) {
    ROCKHOPPER_TRY(set_kernel_addresses(options.ip, config));
  } else {
    ROCKHOPPER_TRY(config.addresses, parse_addresses(options.ip));
    config.mtu =
        std::max(mtu_of(config), static_cast<std::uint16_t>(use.path_mtu + kPathMtuOverhead));
    if (config.addresses.empty()) {
      // All programs at a segment are one port, with its addresses.
      const bool segment = std::holds_alternative<SegmentPort>(config.port);
      config.addresses = default_addresses(segment ? Role::server : use.role);
    }
  }
  config.mtu = options.link_mtu.value_or(config.mtu);
  if (!options.gateway.empty()) {
    config.gateway = stack::IpAddress::parse(options.gateway);
    if (!config.gateway) {
      return fail(ErrorCode::invalid_argument, "--gateway {}: not an IP address", options.gateway);
    }
  }
  config.host.vlan_id = options.vlan;
  ROCKHOPPER_TRY(set_habits(options, config.engine));
  if (!options.personality.empty()) {
    auto personality = parse_personality(options.personality);
    if (!personality) {
      return fail(ErrorCode::invalid_argument, "--personality {}: {}", options.personality,
                  personality.error().message);
    }
    config.personality = *personality;
  }
  ROCKHOPPER_TRY(set_partitions(options, config));
  ROCKHOPPER_TRY(set_priorities(options, config));
  config.pcap = {.path = options.pcap, .interface_name = ""};
  config.seed = options.seed ? *options.seed : roce::SystemRandom().next();
  config.host.seed = config.seed;
  if (!options.faults.empty()) {
    auto faults = stack::parse_faults(options.faults);
    if (!faults) return fail(ErrorCode::invalid_argument, "--faults: {}", faults.error().message);
    // A seed inside of the specification wins.
    if (options.faults.find("seed=") == std::string::npos) faults->seed = config.seed;
    config.faults = *faults;
  }
  if (options.trace == "packets" || options.trace == "all") config.packet_trace = stderr;
  config.trace_events = options.trace == "events" || options.trace == "all";
  config.idle = parse_idle(options.idle);
  config.stats_s = options.stats_s;
  config.connect_timeout_ms = static_cast<std::uint32_t>(options.connect_timeout_s * 1000);
  return config;
}

Expected<void> check_path_mtu(std::uint16_t path_mtu, const EndpointConfig& config) {
  if (path_mtu + kPathMtuOverhead <= config.mtu) return {};
  if (std::holds_alternative<UdpPort>(config.port)) {
    return fail(ErrorCode::invalid_argument,
                "path MTU {} needs interfaces with an MTU of {} or more, see ip link", path_mtu,
                path_mtu + kPathMtuOverhead);
  }
  return fail(ErrorCode::invalid_argument, "path MTU {} needs --link-mtu {} or more", path_mtu,
              path_mtu + kPathMtuOverhead);
}

}  // namespace rockhopper::apps
