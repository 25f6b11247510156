// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_switch/options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <rte_common.h>
#include <rte_mbuf.h>

#include "apps/common/endpoint_options.h"
#include "roce/random.h"
#include "stack/fault_lane.h"
#include "stack/port.h"
#include "stack/quantity.h"
#include "stack/runtime_directory.h"

namespace rockhopper::apps::ethernet_switch {
namespace {

constexpr const char* kNetwork = "Network";
constexpr const char* kObservation = "Observation and faults";
/// Rings of a receive and a transmit queue, and what lcore caches and bursts hold.
constexpr std::uint32_t kMbufsPerPort = 1024 + 1024 + 512;
/// What the two directions of a FaultInjector hold, if it delays.
constexpr std::uint32_t kMbufsPerFaults = 8192 + 2 * stack::FaultLane::kLateCapacity;
/// A frame of the largest MTU must find room in a queue.
constexpr std::uint64_t kQueueBytesMin = 16384;
/// A loop that rests comes back after this at latest, or near it.
constexpr std::uint64_t kCatchUpNs = 2 * kIdleSleepNs;

Expected<std::vector<PortSettings>> make_ports(const SwitchOptions& options) {
  std::vector<PortSettings> ports;
  for (const std::string& device : options.ports) ports.push_back({.device = device});
  if (options.memif_ports > 0) {
    std::string directory = options.socket_directory;
    if (directory.empty()) {
      ROCKHOPPER_TRY(directory, stack::runtime_directory());
    } else if (std::error_code ignored; !std::filesystem::is_directory(directory, ignored)) {
      return fail(ErrorCode::invalid_argument, "--socket-dir {}: there is no such directory",
                  directory);
    }
    for (PortNumber i = 0; i < options.memif_ports; ++i) {
      ports.push_back({.memif_socket = fmt::format("{}/switch{}.sock", directory, ports.size())});
    }
  } else if (!options.socket_directory.empty()) {
    return fail(ErrorCode::invalid_argument, "--socket-dir needs --memif");
  }
  if (ports.size() < 2 || ports.size() > kPortsMax) {
    return fail(ErrorCode::invalid_argument,
                "{} ports: a switch needs 2 to {}; give --port for each, or --memif N",
                ports.size(), kPortsMax);
  }
  return ports;
}

/// "2:loss=1%" is for port 2, "loss=1%" for all: the ports [first, last) and the rest of the text.
struct ForPorts {
  std::size_t first = 0;
  std::size_t last = 0;
  std::string_view value;
};

Expected<ForPorts> for_ports(const char* option, const std::string& text, std::size_t ports) {
  ForPorts result{0, ports, text};
  std::size_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error == std::errc{} && end < text.data() + text.size() && *end == ':') {
    if (port >= ports) {
      return fail(ErrorCode::invalid_argument, "{} {}: the ports are 0 to {}", option, text,
                  ports - 1);
    }
    result.value.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
    result.first = port;
    result.last = port + 1;
  }
  return result;
}

Expected<void> add_faults(const std::string& text, const SwitchSettings& settings,
                          std::vector<PortSettings>& ports) {
  ROCKHOPPER_TRY(const auto chosen, for_ports("--faults", text, ports.size()));
  auto faults = stack::parse_faults(chosen.value);
  if (!faults) {
    return fail(ErrorCode::invalid_argument, "--faults {}: {}", text, faults.error().message);
  }
  for (std::size_t port = chosen.first; port < chosen.last; ++port) {
    ports[port].faults = *faults;
    // A seed inside of the specification wins. Else each port has another sequence.
    if (chosen.value.find("seed=") == std::string_view::npos) {
      ports[port].faults->seed = settings.seed + port;
    }
  }
  return {};
}

/// Gives what `apply` makes of each text to the ports that it is for. `apply` returns an error's
/// text, or an empty one.
template <typename Apply>
Expected<void> set_ports(const char* option, const std::vector<std::string>& texts,
                         std::vector<PortSettings>& ports, Apply&& apply) {
  for (const std::string& text : texts) {
    ROCKHOPPER_TRY(const auto chosen, for_ports(option, text, ports.size()));
    for (std::size_t port = chosen.first; port < chosen.last; ++port) {
      if (const std::string problem = apply(chosen.value, ports[port]); !problem.empty()) {
        return fail(ErrorCode::invalid_argument, "{} {}: {}", option, text, problem);
      }
    }
  }
  return {};
}

Expected<void> add_outputs(const SwitchOptions& options, const SwitchSettings& settings,
                           std::vector<PortSettings>& ports) {
  for (std::size_t port = 0; port < ports.size(); ++port) {
    ports[port].output.queue_packets = options.queue_packets;
    ports[port].output.catch_up_ns = kCatchUpNs;
    ports[port].output.seed = settings.seed + port;
  }
  ROCKHOPPER_TRY(
      set_ports("--rate", options.rates, ports, [](std::string_view text, PortSettings& to) {
        return stack::parse_rate(text, to.output.rate_bits_per_s) ? ""
                                                                  : "a rate is 100Mbit or 2.5Gbit";
      }));
  ROCKHOPPER_TRY(set_ports(
      "--queue-bytes", options.queue_bytes, ports, [](std::string_view text, PortSettings& to) {
        return stack::parse_bytes(text, to.output.queue_bytes) &&
                       to.output.queue_bytes >= kQueueBytesMin
                   ? std::string()
                   : fmt::format("a queue has {} bytes or more, as 200KiB", kQueueBytesMin);
      }));
  return set_ports("--ecn", options.ecn, ports,
                   [](std::string_view text, PortSettings& to) -> std::string {
                     const auto marking = stack::net::parse_ecn_marking(text);
                     if (!marking) return marking.error().message;
                     to.output.ecn = *marking;
                     return {};
                   });
}

Expected<void> add_priorities(const SwitchOptions& options, std::vector<PortSettings>& ports) {
  ROCKHOPPER_TRY(set_ports("--trust", options.trust, ports,
                           [](std::string_view text, PortSettings& to) -> std::string {
                             const auto trust = stack::parse_trust(text);
                             if (!trust) return trust.error().message;
                             to.priorities.trust = *trust;
                             return {};
                           }));
  return set_ports("--dscp-priority", options.dscp_priorities, ports,
                   [](std::string_view text, PortSettings& to) -> std::string {
                     const auto parsed = stack::parse_dscp_priorities(text, to.priorities.of_dscp);
                     return parsed ? std::string() : parsed.error().message;
                   });
}

bool is_memif(const PortSettings& port) {
  return port.device.empty() || port.device.starts_with("net_memif");
}

}  // namespace

void add_options(OptionSet app, SwitchOptions& options) {
  app.add_option("--port", options.ports,
                 "a DPDK port: devargs to plug (net_af_packet0,iface=eth1), the name of a device "
                 "that the EAL has found, or a port number; once for each port")
      .type_name("DEVARGS|ID")
      .one_value_each()
      .group(kNetwork);
  app.add_option("--memif", options.memif_ports,
                 "so many memif servers besides, for programs on this machine")
      .range(1, static_cast<int>(kPortsMax))
      .type_name("N")
      .group(kNetwork);
  app.add_option("--socket-dir", options.socket_directory,
                 "where their sockets switchPORT.sock are. Default: the user's runtime directory")
      .type_name("DIR")
      .group(kNetwork);
  app.add_option("--link-mtu", options.link_mtu,
                 "largest IP packet in bytes. Default: 4300 if all ports are memif, else 1500")
      .range(576, static_cast<int>(stack::kMtuMax))
      .type_name("BYTES")
      .group(kNetwork);
  app.add_option("--mac-ageing", options.mac_ageing_s, "forget stations not heard for so long")
      .range(0.001, 1e6)
      .type_name("SECONDS")
      .group(kNetwork);
  app.add_option("--mac-table", options.mac_table_size,
                 "stations remembered at most; frames to others are flooded")
      .range(1, 1 << 20)
      .type_name("N")
      .group(kNetwork);
  app.add_option("--queue", options.queue_packets, "packets that wait for a port at most")
      .range(1, 1 << 16)
      .type_name("N")
      .group(kNetwork);
  app.add_option("--queue-bytes", options.queue_bytes,
                 "bytes that wait for a port at most (200KiB); as --rate")
      .type_name("[PORT:]BYTES")
      .one_value_each()
      .group(kNetwork);
  app.add_option("--rate", options.rates,
                 "how fast a port sends, or all ports without \"PORT:\" (1Gbit); may be repeated, "
                 "and the last one for a port counts")
      .type_name("[PORT:]RATE")
      .one_value_each()
      .group(kNetwork);
  app.add_option("--ecn", options.ecn,
                 "mark ECN-capable packets when a port's queue is longer than KMIN, with a "
                 "probability that rises to PMAX at KMAX, and all above it "
                 "(5KiB,200KiB,1%); as --rate")
      .type_name("[PORT:]KMIN,KMAX,PMAX")
      .one_value_each()
      .group(kNetwork);
  app.add_option("--trust", options.trust,
                 "where a frame that comes in has its priority: pcp, the VLAN tag (of untagged "
                 "ones the DSCP), or dscp; as --rate")
      .type_name("[PORT:]pcp|dscp")
      .one_value_each()
      .group(kNetwork);
  app.add_option("--dscp-priority", options.dscp_priorities,
                 "priorities of DSCPs that come in at a port (26=3,46=5,8-15=1). Default: the "
                 "DSCP's upper three bits; as --rate")
      .type_name("[PORT:]MAP")
      .one_value_each()
      .group(kNetwork);
  add_idle_option(app, options.idle).group(kNetwork);
  app.add_option("--faults", options.faults,
                 "impair a port, or all ports without \"PORT:\"; may be repeated, and the last one "
                 "for a port counts. rx. is what the port receives: loss=1%,dup=1%,"
                 "reorder=5%:2ms,corrupt=0.1%,delay=1ms,tx.rate=1Gbit or profile=P2")
      .type_name("[PORT:]SPEC")
      .one_value_each()
      .group(kObservation);
  app.add_option("--seed", options.seed, "of the faults. Default: random, printed")
      .type_name("N")
      .group(kObservation);
  app.add_option("--pcap", options.pcap,
                 "capture each port's wire to a pcapng file of its own: run.pcapng gives "
                 "run.0.pcapng, run.1.pcapng ...")
      .type_name("FILE")
      .group(kObservation);
  app.add_option("--stats", options.stats_s, "print packet rates every so many seconds (stderr)")
      .range(0.1, 86400.0)
      .type_name("SECONDS")
      .group(kObservation);
  app.add_flag("--json", options.json, "print the counters at the end as one JSON object")
      .group(kObservation);
}

Expected<SwitchSettings> make_settings(const SwitchOptions& options) {
  SwitchSettings settings;
  ROCKHOPPER_TRY(auto ports, make_ports(options));
  settings.seed = options.seed ? *options.seed : roce::SystemRandom().next();
  for (const std::string& text : options.faults) ROCKHOPPER_TRY(add_faults(text, settings, ports));
  ROCKHOPPER_TRY(add_outputs(options, settings, ports));
  ROCKHOPPER_TRY(add_priorities(options, ports));
  if (!options.pcap.empty()) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      ports[i].pcap = capture_file(options.pcap, static_cast<PortNumber>(i));
    }
  }
  const bool all_memif = std::all_of(ports.begin(), ports.end(), is_memif);
  settings.mtu = options.link_mtu.value_or(all_memif ? kMemifMtu : std::uint16_t{1500});
  settings.ports = std::move(ports);
  settings.mac_ageing_ns = static_cast<std::uint64_t>(options.mac_ageing_s * 1e9);
  settings.mac_table_size = options.mac_table_size;
  settings.idle = parse_idle(options.idle);
  return settings;
}

std::string capture_file(const std::string& path, PortNumber port) {
  const std::filesystem::path file(path);
  std::filesystem::path name = file.stem();
  name += fmt::format(".{}", port);
  name += file.extension();
  return file.parent_path() / name;
}

std::uint32_t pool_size(const SwitchSettings& settings) {
  std::uint32_t size = 0;
  for (const PortSettings& port : settings.ports) {
    size += kMbufsPerPort + static_cast<std::uint32_t>(port.output.queue_packets);
    if (port.faults) size += kMbufsPerFaults;
  }
  return size;
}

std::uint16_t data_room(const SwitchSettings& settings) {
  const std::uint32_t frame = settings.mtu + stack::kFrameOverhead;
  return static_cast<std::uint16_t>(
      std::max<std::uint32_t>(RTE_MBUF_DEFAULT_DATAROOM, RTE_ALIGN_CEIL(frame, 1024u)));
}

unsigned embedded_memory_mb(const SwitchSettings& settings) {
  constexpr std::uint64_t kMbufOverhead = sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM + 64;
  const std::uint64_t pool_bytes =
      std::uint64_t{pool_size(settings)} * (data_room(settings) + kMbufOverhead);
  // A quarter more for the holes that plain pages leave, and the EAL's own.
  return static_cast<unsigned>(pool_bytes * 5 / 4 >> 20) + 64;
}

}  // namespace rockhopper::apps::ethernet_switch
