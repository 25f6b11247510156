// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_switch/program.h"

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "apps/common/command_line.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_switch/options.h"
#include "apps/rh_switch/report.h"
#include "apps/rh_switch/switch_program.h"

namespace rockhopper::apps::ethernet_switch {

namespace {

const ProgramText kText{
    "rh-switch",
    "A learning Ethernet switch between DPDK ports, with faults, captures and counters at each "
    "port. It runs until SIGINT or SIGTERM.",
    "  rh-switch --memif 3               three programs of this machine in a network:\n"
    "                                    it prints with which options to start them\n"
    "  rh-switch --memif 2 --faults loss=1%,reorder=5%:2ms --pcap run.pcapng\n"
    "  rh-switch --memif 2 --faults 0:tx.rate=1Gbit --faults 1:delay=10ms\n"
    "  rh-switch --port net_af_packet0,iface=eth1 --port net_af_packet1,iface=eth2 \\\n"
    "            --faults 0:profile=P2   a bump in the wire between two NICs\n"
    "  rh-switch --port net_af_packet0,iface=eth1 --segment 10.0.0.5/24\n"
    "            the programs under rh-run --uplink switch, all at this port\n"
    "  rh-switch -a 0000:01:00.0 -a 0000:02:00.0 -- --port 0 --port 1\n"};

constexpr std::uint32_t kTurnsPerClock = 256;

void run_until_stopped(SwitchProgram& program, double stats_s) {
  RatePrinter rates(program);
  const auto interval_ns = static_cast<std::uint64_t>(stats_s * 1e9);
  std::uint64_t next_ns = steady_now_ns() + interval_ns;
  for (std::uint32_t turns = 0; !stop_requested(); ++turns) {
    program.turn();
    if (interval_ns == 0 || turns % kTurnsPerClock != 0 || steady_now_ns() < next_ns) continue;
    rates.print(stderr);
    next_ns += interval_ns;
  }
}

Expected<void> run(const Options& options, const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto created, SwitchProgram::create(options, arguments));
  SwitchProgram& program = *created;
  const std::uint64_t start_ns = steady_now_ns();
  print_ports(stderr, program);
  fmt::print(stderr, "rh-switch: ready\n");

  run_until_stopped(program, options.stats_s);
  auto finished = program.finish();
  const double seconds = static_cast<double>(steady_now_ns() - start_ns) / 1e9;
  if (options.json) {
    fmt::print("{}\n", json_report(program, seconds));
  } else {
    print_report(stdout, program, seconds);
  }
  return finished;
}

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  catch_stop_signals();
  return line.finish(run(options, line.arguments()));
}

}  // namespace rockhopper::apps::ethernet_switch
