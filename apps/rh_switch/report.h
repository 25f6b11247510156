// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/rh_switch/switch_program.h"

namespace rockhopper::apps::ethernet_switch {

/// The ports, and how to connect programs to those that are memif servers.
void print_ports(std::FILE* out, const SwitchProgram& program);

/// All counters as one JSON object of one line.
[[nodiscard]] std::string json_report(const SwitchProgram& program, double seconds);

/// All counters that are not 0.
void print_report(std::FILE* out, const SwitchProgram& program, double seconds);

/// Packet rates of the ports, a line for each.
class RatePrinter {
 public:
  explicit RatePrinter(const SwitchProgram& program);
  /// The rates since the call before, or since construction.
  void print(std::FILE* out);

 private:
  struct Sample {
    std::uint64_t rx_packets = 0;
    std::uint64_t rx_bytes = 0;
    std::uint64_t tx_packets = 0;
    std::uint64_t tx_bytes = 0;
    std::uint64_t dropped = 0;
  };
  [[nodiscard]] Sample sample(PortNumber port) const;

  const SwitchProgram& program_;
  std::vector<Sample> last_;
  std::uint64_t last_ns_;
};

}  // namespace rockhopper::apps::ethernet_switch
