// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_switch/report.h"

#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <rte_ether.h>

#include "apps/common/steady_clock.h"

namespace rockhopper::apps::ethernet_switch {
namespace {

std::string mac_text(const rte_ether_addr& mac) {
  char text[RTE_ETHER_ADDR_FMT_SIZE];
  rte_ether_format_addr(text, sizeof(text), &mac);
  return text;
}

std::string addresses_text(const std::vector<stack::InterfaceAddress>& addresses) {
  std::string text;
  for (const stack::InterfaceAddress& own : addresses) {
    text +=
        fmt::format("{}{}/{}", text.empty() ? "" : ",", own.address.to_string(), own.prefix_length);
  }
  return text;
}

void add_to_json(void* object, const char* name, std::uint64_t value) {
  (*static_cast<nlohmann::json*>(object))[name] = value;
}

void print_counter(void* out, const char* name, std::uint64_t value) {
  if (value != 0) fmt::print(static_cast<std::FILE*>(out), "  {:<32} {}\n", name, value);
}

}  // namespace

void print_ports(std::FILE* out, const SwitchProgram& program) {
  for (std::size_t i = 0; i < program.ports().size(); ++i) {
    const SwitchPort& port = program.ports()[i];
    const PortSettings& settings = program.options().ports[i];
    fmt::print(out, "port {}: {} ({}), MTU {}", i, port.name(), port.driver(), port.mtu());
    if (settings.faults) fmt::print(out, ", faults with seed={}", settings.faults->seed);
    fmt::print(out, "\n");
    if (!settings.memif_socket.empty()) {
      fmt::print(out, "  for a program: --memif-role client --memif-socket {} --ip 10.42.0.{}/24\n",
                 settings.memif_socket, i + 1);
    }
    if (settings.segment) {
      fmt::print(out, "  for a program: ");
      if (!settings.segment->directory.empty()) {
        fmt::print(out, "ROCKHOPPER_SEGMENT={} ", settings.segment->directory);
      }
      fmt::print(out, "rh-run --uplink switch --addresses {}\n",
                 addresses_text(settings.segment->addresses));
    }
  }
}

std::string json_report(const SwitchProgram& program, double seconds) {
  nlohmann::json macs = nlohmann::json::object();
  program.learning_switch().visit_mac_counters(&add_to_json, &macs);
  nlohmann::json ports = nlohmann::json::array();
  for (std::size_t i = 0; i < program.ports().size(); ++i) {
    const SwitchPort& port = program.ports()[i];
    const PortSettings& settings = program.options().ports[i];
    nlohmann::json counters = nlohmann::json::object();
    program.visit_port_counters(static_cast<PortNumber>(i), &add_to_json, &counters);
    nlohmann::json object{{"port", i},
                          {"device", port.name()},
                          {"driver", port.driver()},
                          {"mac", mac_text(port.mac())},
                          {"link_up", port.link_up()},
                          {"counters", counters}};
    if (!settings.memif_socket.empty()) object["memif_socket"] = settings.memif_socket;
    if (settings.segment) object["segment"] = port.name();
    if (port.faults) {
      nlohmann::json faults = nlohmann::json::object();
      port.faults->visit_counters(&add_to_json, &faults);
      object["faults"] = faults;
      object["seed"] = settings.faults->seed;
    }
    if (port.pcap) {
      object["pcap"] = {{"file", settings.pcap},
                        {"packets", port.pcap->counters().packets.value()},
                        {"lost", port.pcap->counters().lost.value()}};
    }
    ports.push_back(std::move(object));
  }
  const nlohmann::json report{{"program", "rh-switch"},
                              {"seconds", seconds},
                              {"mtu", program.options().mtu},
                              {"mac_table", macs},
                              {"ports", ports}};
  return report.dump();
}

void print_report(std::FILE* out, const SwitchProgram& program, double seconds) {
  fmt::print(out, "{:.1f} seconds; counters that are not 0:\nmac table\n", seconds);
  program.learning_switch().visit_mac_counters(&print_counter, out);
  for (std::size_t i = 0; i < program.ports().size(); ++i) {
    const SwitchPort& port = program.ports()[i];
    fmt::print(out, "port {}: {}\n", i, port.name());
    program.visit_port_counters(static_cast<PortNumber>(i), &print_counter, out);
    if (port.faults) {
      fmt::print(out, "port {}: faults\n", i);
      port.faults->visit_counters(&print_counter, out);
    }
    if (port.pcap) {
      fmt::print(out, "port {}: capture {}\n", i, program.options().ports[i].pcap);
      print_counter(out, "packets", port.pcap->counters().packets.value());
      print_counter(out, "lost", port.pcap->counters().lost.value());
    }
  }
}

RatePrinter::RatePrinter(const SwitchProgram& program)
    : program_(program), last_(program.ports().size()), last_ns_(steady_now_ns()) {}

RatePrinter::Sample RatePrinter::sample(PortNumber port) const {
  const stack::net::SwitchPortCounters& counters = program_.learning_switch().counters(port);
  Sample sample{.rx_packets = counters.rx_packets.value(),
                .rx_bytes = counters.rx_bytes.value(),
                .tx_packets = counters.tx_packets.value(),
                .tx_bytes = counters.tx_bytes.value()};
  const auto add_drops = [](void* total, const char* name, std::uint64_t value) {
    if (std::string_view(name).find("_dropped_") != std::string_view::npos) {
      *static_cast<std::uint64_t*>(total) += value;
    }
  };
  program_.learning_switch().visit_port_counters(port, add_drops, &sample.dropped);
  return sample;
}

void RatePrinter::print(std::FILE* out) {
  const std::uint64_t now_ns = steady_now_ns();
  const double seconds = static_cast<double>(now_ns - last_ns_) / 1e9;
  last_ns_ = now_ns;
  for (std::size_t i = 0; i < last_.size(); ++i) {
    const Sample now = sample(static_cast<PortNumber>(i));
    const auto rate = [seconds](std::uint64_t after, std::uint64_t before) {
      return static_cast<double>(after - before) / seconds;
    };
    fmt::print(
        out,
        "port {}: rx {:.0f} packets/s {:.3f} Gbit/s, tx {:.0f} packets/s {:.3f} Gbit/s, "
        "dropped {:.0f} packets/s, {}\n",
        i, rate(now.rx_packets, last_[i].rx_packets), rate(now.rx_bytes, last_[i].rx_bytes) * 8e-9,
        rate(now.tx_packets, last_[i].tx_packets), rate(now.tx_bytes, last_[i].tx_bytes) * 8e-9,
        rate(now.dropped, last_[i].dropped), program_.ports()[i].link_up() ? "up" : "down");
    last_[i] = now;
  }
  (void)std::fflush(out);
}

}  // namespace rockhopper::apps::ethernet_switch
