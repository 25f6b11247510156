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
#include "apps/common/idle.h"
#include "apps/common/output_file.h"
#include "roce/random.h"
#include "stack/device_limits.h"
#include "stack/fault_lane.h"
#include "stack/port.h"
#include "stack/quantity.h"
#include "stack/runtime_directory.h"
#include "stack/split_list.h"

namespace rockhopper::apps::ethernet_switch {
namespace {

/// Rings of a receive and a transmit queue, and what lcore caches and bursts hold.
constexpr std::uint32_t kMbufsPerPort = 1024 + 1024 + 512;
/// What waits for room in the lanes of a segment.
constexpr std::uint32_t kMbufsPerSegment = 4096;
/// What the two directions of a FaultInjector hold, if it delays.
constexpr std::uint32_t kMbufsPerFaults = 8192 + 2 * stack::FaultLane::kLateCapacity;
/// A frame of the largest MTU must find room in a queue.
constexpr std::uint64_t kQueueBytesMin = 16384;
/// A loop that rests comes back after this at latest, or near it.
constexpr std::uint64_t kCatchUpNs = 2 * kIdleSleepNs;

/// Behind those that are named.
Expected<void> add_memif_ports(Options& options) {
  if (options.memif_ports > 0) {
    std::string directory = options.socket_directory;
    if (directory.empty()) {
      ROCKHOPPER_TRY(directory, stack::runtime_directory());
    } else if (std::error_code ignored; !std::filesystem::is_directory(directory, ignored)) {
      return fail(ErrorCode::invalid_argument, "--socket-dir {}: there is no such directory",
                  directory);
    }
    for (PortNumber i = 0; i < options.memif_ports; ++i) {
      options.ports.push_back(
          {.memif_socket = fmt::format("{}/switch{}.sock", directory, options.ports.size())});
    }
  }
  return refuse_if({{options.memif_ports == 0 && !options.socket_directory.empty(),
                     "--socket-dir needs --memif"}});
}

Expected<void> check_ports(const Options& options) {
  const std::size_t ports = options.ports.size();
  const auto same = [](const PortSettings& a, const PortSettings& b) {
    return a.segment && b.segment && a.segment->directory == b.segment->directory;
  };
  bool twice = false;
  for (std::size_t i = 0; i < ports; ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      twice = twice || same(options.ports[i], options.ports[other]);
    }
  }
  return refuse_if({
      {twice,
       "--segment: the same segment is given twice; name the folder of each, as in "
       "10.0.0.5/24@/dev/shm/rh1"},
      {ports < 2 || ports > kPortsMax,
       fmt::format("{} ports: a switch needs 2 to {}; give --port or --segment for each, or "
                   "--memif N",
                   ports, kPortsMax)},
  });
}

/// Carries whatever the others do: by memory.
bool is_memif(const PortSettings& port) {
  return port.device.empty() || port.device.starts_with("net_memif");
}

/// What ports have without options of their own.
Expected<void> set_defaults(Options& options) {
  ROCKHOPPER_TRY(refuse_standard_output("--pcap", options.pcap));
  if (!options.seed) options.seed = roce::SystemRandom().next();
  for (std::size_t i = 0; i < options.ports.size(); ++i) {
    PortSettings& port = options.ports[i];
    port.output.queue_packets = options.queue_packets;
    port.output.catch_up_ns = kCatchUpNs;
    port.output.seed = *options.seed + i;
    if (!options.pcap.empty()) port.pcap = capture_file(options.pcap, static_cast<PortNumber>(i));
  }
  const bool all_memif = std::all_of(options.ports.begin(), options.ports.end(), is_memif);
  if (options.mtu == 0) options.mtu = all_memif ? kMemifMtu : std::uint16_t{1500};
  return {};
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

/// Adds an option whose values are for one port or for all. `apply` gives a value to a port, and
/// fails with what is wrong about it.
template <typename Apply>
void add_port_option(const OptionSet& app, const std::string& names, Options& options, Apply apply,
                     std::string_view help) {
  const std::string name = names.substr(0, names.find(' '));
  const auto take = [name, &options, apply](const std::string& text) -> Expected<void> {
    ROCKHOPPER_TRY(const auto chosen, for_ports(name.c_str(), text, options.ports.size()));
    for (std::size_t port = chosen.first; port < chosen.last; ++port) {
      if (auto good = apply(chosen.value, options.ports[port]); !good) {
        return fail(ErrorCode::invalid_argument, "{} {}: {}", name, text, good.error().message);
      }
    }
    return {};
  };
  app.add_parsed_list(names, take, help);
}

void add_port_options(const OptionSet& app, Options& options) {
  app.add_parsed_list(
      "--port DEVARGS|ID",
      [&options](const std::string& device) -> Expected<void> {
        options.ports.push_back({.device = device});
        return {};
      },
      "a DPDK port: devargs to plug (net_af_packet0,iface=eth1), the name of a device that the "
      "EAL has found, or a port number; once for each port");
  app.add_option("--memif N", options.memif_ports,
                 "so many memif servers besides, for programs on this machine")
      .range(1, static_cast<int>(kPortsMax));
  app.add_option("--socket-dir DIR", options.socket_directory,
                 "where their sockets switchPORT.sock are. Default: the user's runtime directory");
  app.check([&options] { return add_memif_ports(options); });
  app.add_parsed_list(
      "--segment ADDRESSES[@DIR]",
      [&options](const std::string& text) -> Expected<void> {
        ROCKHOPPER_TRY(auto segment, parse_segment(text));
        options.ports.push_back({.segment = std::move(segment)});
        return {};
      },
      "the verbs programs of this user as a port, under rh-run --uplink switch with the same "
      "--addresses (10.0.0.5/24,fd00::5/64): for each device of theirs once, with the folder of "
      "its segment, without which it is the usual one");
  app.check([&options] { return check_ports(options); });
  app.check([&options] { return set_defaults(options); });
  app.add_option("--link-mtu BYTES", options.mtu,
                 "largest IP packet in bytes. Default: 4300 if all ports are memif, else 1500")
      .range(576, static_cast<int>(stack::kMtuMax));
  app.add_option("--mac-ageing SECONDS", options.mac_ageing_s,
                 "forget stations not heard for so long")
      .range(0.001, 1e6);
  app.add_option("--mac-table N", options.mac_table_size,
                 "stations remembered at most; frames to others are flooded")
      .range(1, 1 << 20);
  app.add_option("--queue N", options.queue_packets, "packets that wait for a port at most")
      .range(1, 1 << 16);
}

void add_output_options(const OptionSet& app, Options& options) {
  add_port_option(
      app, "--queue-bytes [PORT:]BYTES", options,
      [](std::string_view text, PortSettings& to) -> Expected<void> {
        std::uint64_t& bytes = to.output.queue_bytes;
        if (stack::parse_bytes(text, bytes) && bytes >= kQueueBytesMin) return {};
        return fail(ErrorCode::invalid_argument, "a queue has {} bytes or more, as 200KiB",
                    kQueueBytesMin);
      },
      "bytes that wait for a port at most (200KiB); as --rate");
  add_port_option(
      app, "--rate [PORT:]RATE", options,
      [](std::string_view text, PortSettings& to) -> Expected<void> {
        if (stack::parse_rate(text, to.output.rate_bits_per_s)) return {};
        return fail(ErrorCode::invalid_argument, "a rate is 100Mbit or 2.5Gbit");
      },
      "how fast a port sends, or all ports without \"PORT:\" (1Gbit); may be repeated, and the "
      "last one for a port counts");
  add_port_option(
      app, "--ecn [PORT:]KMIN,KMAX,PMAX", options,
      [](std::string_view text, PortSettings& to) -> Expected<void> {
        ROCKHOPPER_TRY(to.output.ecn, stack::net::parse_ecn_marking(text));
        return {};
      },
      "mark ECN-capable packets when a port's queue is longer than KMIN, with a probability that "
      "rises to PMAX at KMAX, and all above it (5KiB,200KiB,1%); as --rate");
  add_port_option(
      app, "--trust [PORT:]pcp|dscp", options,
      [](std::string_view text, PortSettings& to) -> Expected<void> {
        ROCKHOPPER_TRY(to.priorities.trust, stack::parse_trust(text));
        return {};
      },
      "where a frame that comes in has its priority: pcp, the VLAN tag (of untagged ones the "
      "DSCP), or dscp; as --rate");
  add_port_option(
      app, "--dscp-priority [PORT:]MAP", options,
      [](std::string_view text, PortSettings& to) {
        return stack::parse_dscp_priorities(text, to.priorities.of_dscp);
      },
      "priorities of DSCPs that come in at a port (26=3,46=5,8-15=1). Default: the DSCP's upper "
      "three bits; as --rate");
  add_idle_option(app, options.idle);
}

}  // namespace

void add_options(const OptionSet& app, Options& options) {
  const OptionSet network = app.group("Network");
  add_port_options(network, options);
  add_output_options(network, options);
  const OptionSet observation = app.group("Observation and faults");
  add_port_option(
      observation, "--faults [PORT:]SPEC", options,
      [](std::string_view text, PortSettings& to) -> Expected<void> {
        ROCKHOPPER_TRY(to.faults, stack::parse_faults(text));
        // A seed inside of the specification wins. Else each port has another sequence.
        if (text.find("seed=") == std::string_view::npos) to.faults->seed = to.output.seed;
        return {};
      },
      "impair a port, or all ports without \"PORT:\"; may be repeated, and the last one for a "
      "port counts. rx. is what the port receives: loss=1%,dup=1%,reorder=5%:2ms,corrupt=0.1%,"
      "delay=1ms,tx.rate=1Gbit or profile=P2");
  observation.add_option("--seed N", options.seed, "of the faults. Default: random, printed");
  observation.add_option("--pcap FILE", options.pcap,
                         "capture each port's wire to a pcapng file of its own: run.pcapng gives "
                         "run.0.pcapng, run.1.pcapng ...");
  add_seconds_option(observation, "--stats", options.stats_s,
                     "print packet rates every so many seconds (stderr)");
  observation.add_flag("--json", options.json, "print the counters at the end as one JSON object");
}

Expected<SegmentSettings> parse_segment(const std::string& text) {
  SegmentSettings segment;
  const std::size_t at = text.find('@');
  if (at != std::string::npos) {
    segment.directory = text.substr(at + 1);
    if (std::error_code ignored; !std::filesystem::is_directory(segment.directory, ignored)) {
      return fail(ErrorCode::invalid_argument, "--segment {}: there is no such directory", text);
    }
  }
  auto read = stack::split_list(
      std::string_view(text).substr(0, at), [&](std::string_view item) -> Expected<void> {
        ROCKHOPPER_TRY(const auto own, stack::InterfaceAddress::parse(item));
        for (const stack::InterfaceAddress& other : segment.addresses) {
          if (other.address == own.address) {
            return fail(ErrorCode::invalid_argument, "{} is given twice", own.address.to_string());
          }
        }
        segment.addresses.push_back(own);
        return {};
      });
  if (!read) {
    return fail(ErrorCode::invalid_argument, "--segment {}: {}", text, read.error().message);
  }
  return segment;
}

std::string capture_file(const std::string& path, PortNumber port) {
  const std::filesystem::path file(path);
  std::filesystem::path name = file.stem();
  name += fmt::format(".{}", port);
  name += file.extension();
  return file.parent_path() / name;
}

std::uint32_t pool_size(const Options& options) {
  std::uint32_t size = 0;
  for (const PortSettings& port : options.ports) {
    size += kMbufsPerPort + static_cast<std::uint32_t>(port.output.queue_packets);
    if (port.segment) size += kMbufsPerSegment;
    if (port.faults) size += kMbufsPerFaults;
  }
  return size;
}

std::uint16_t data_room(const Options& options) {
  std::uint32_t room = RTE_MBUF_DEFAULT_DATAROOM;
  for (const PortSettings& port : options.ports) {
    room = std::max(room, stack::shared_data_room(port.device, options.mtu));
  }
  return static_cast<std::uint16_t>(RTE_ALIGN_CEIL(room, 1024u));
}

unsigned embedded_memory_mb(const Options& options) {
  constexpr std::uint64_t kMbufOverhead = sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM + 64;
  const std::uint64_t pool_bytes =
      std::uint64_t{pool_size(options)} * (data_room(options) + kMbufOverhead);
  // A quarter more for the holes that plain pages leave, and the EAL's own.
  return static_cast<unsigned>(pool_bytes * 5 / 4 >> 20) + 64;
}

}  // namespace rockhopper::apps::ethernet_switch
