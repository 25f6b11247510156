// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/rh_sim/ideal_time.h"

namespace rockhopper::apps::sim {
namespace {

constexpr std::size_t kFlowsInTable = 100;

using Counters = std::map<std::string, std::uint64_t>;

void add_to(void* counters, const char* name, std::uint64_t value) {
  if (value != 0) (*static_cast<Counters*>(counters))[name] += value;
}

/// Those of all hosts in sum that are not 0.
Counters host_counters(const Simulation& simulation) {
  Counters sum;
  for (const auto& host : simulation.hosts()) {
    if (host != nullptr) host->engine().visit_counters(&add_to, &sum);
  }
  return sum;
}

std::string operation_text(const FlowSpec& flow) {
  return fmt::format("{} {} {}", to_string(flow.transport), operation_name(flow.operation),
                     flow.size);
}

double average_us(const FlowResult& result) {
  return result.completed == 0 ? 0
                               : static_cast<double>(result.latency_sum_ns) /
                                     static_cast<double>(result.completed) * 1e-3;
}

void print_flows(std::FILE* out, const Simulation& simulation) {
  fmt::print(out, "\n{:<16} {:<10} {:<10} {:<20} {:>10} {:>7} {:>9} {:>10} {:>10}\n", "flow",
             "from", "to", "what", "completed", "failed", "Gbit/s", "avg us", "max us");
  std::size_t printed = 0;
  for (const auto& flow : simulation.flows()) {
    if (printed++ == kFlowsInTable) {
      fmt::print(out, "... and {} more, all in --json\n",
                 simulation.flows().size() - kFlowsInTable);
      break;
    }
    const FlowSpec& spec = flow->spec();
    const FlowResult& result = flow->result();
    const auto& nodes = simulation.scenario().nodes;
    fmt::print(out, "{:<16} {:<10} {:<10} {:<20} {:>10} {:>7} {:>9.3f} {:>10.2f} {:>10.2f}\n",
               spec.name, nodes[spec.from].name, nodes[spec.to].name, operation_text(spec),
               result.completed, result.failed, simulation.measured_rate(*flow) * 1e-9,
               average_us(result), static_cast<double>(result.latency_max_ns) * 1e-3);
  }
}

double average(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Returns the value that `fraction` of all do not exceed. Requires sorted values, at least one.
double percentile(const std::vector<double>& sorted, double fraction) {
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

/// By flow: the average time of its messages as a multiple of what one takes in an empty network.
using Slowdowns = std::vector<std::optional<double>>;

Slowdowns slowdowns_of(const Simulation& simulation) {
  IdealTimes ideal(simulation.scenario());
  Slowdowns slowdowns;
  for (const auto& flow : simulation.flows()) {
    const auto ideal_ns = ideal.of(flow->spec());
    slowdowns.emplace_back();
    if (ideal_ns && flow->result().completed > 0) {
      slowdowns.back() = average_us(flow->result()) * 1e3 / static_cast<double>(*ideal_ns);
    }
  }
  return slowdowns;
}

std::vector<double> sorted_slowdowns(const Simulation& simulation, const Slowdowns& slowdowns,
                                     std::size_t group) {
  std::vector<double> sorted;
  for (std::size_t i = 0; i < slowdowns.size(); ++i) {
    if (slowdowns[i] && simulation.flows()[i]->spec().group == group) {
      sorted.push_back(*slowdowns[i]);
    }
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

struct GroupSum {
  std::size_t flows = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  double rate = 0;
};

GroupSum sum_of(const Simulation& simulation, std::size_t group) {
  GroupSum sum;
  for (const auto& flow : simulation.flows()) {
    if (flow->spec().group != group) continue;
    ++sum.flows;
    sum.completed += flow->result().completed;
    sum.failed += flow->result().failed;
    sum.rate += simulation.measured_rate(*flow);
  }
  return sum;
}

void print_groups(std::FILE* out, const Simulation& simulation) {
  fmt::print(out, "\n{:<16} {:>6} {:>10} {:>9} {:>9} {:>10} {:>10} {:>10} {:>9}\n", "group",
             "flows", "completed", "Gbit/s", "fairness", "p50 us", "p99 us", "p99.9 us",
             "slowdown");
  const Slowdowns slowdowns = slowdowns_of(simulation);
  for (std::size_t i = 0; i < simulation.scenario().groups.size(); ++i) {
    const GroupSum sum = sum_of(simulation, i);
    const auto& latency = simulation.latencies()[i];
    const std::vector<double> slowest = sorted_slowdowns(simulation, slowdowns, i);
    const auto latency_us = [&latency](double fraction) {
      return latency.count() == 0 ? 0 : latency.percentile_ns(fraction) * 1e-3;
    };
    fmt::print(out, "{:<16} {:>6} {:>10} {:>9.3f} {:>9.4f} {:>10.2f} {:>10.2f} {:>10.2f} {:>9}\n",
               simulation.scenario().groups[i], sum.flows, sum.completed, sum.rate * 1e-9,
               simulation.fairness(i), latency_us(0.5), latency_us(0.99), latency_us(0.999),
               slowest.empty() ? "-" : fmt::format("{:.2f}", average(slowest)));
  }
}

void print_ports(std::FILE* out, const Simulation& simulation) {
  if (simulation.switch_ports().empty()) return;
  fmt::print(out, "\n{:<24} {:>12} {:>14} {:>10} {:>14} {:>8}\n", "switch port", "packets", "bytes",
             "ECN marked", "longest bytes", "pauses");
  std::size_t silent = 0;
  for (const SwitchPort& port : simulation.switch_ports()) {
    const stack::net::OutputPort& output = port.channel->output();
    // Most ports of an incast carry acknowledgements only.
    if (output.longest_bytes() < 4096 && simulation.switch_ports().size() > kFlowsInTable / 4) {
      ++silent;
      continue;
    }
    fmt::print(out, "{:<24} {:>12} {:>14} {:>10} {:>14} {:>8}\n", port.name,
               port.channel->counters().packets.value(), port.channel->counters().bytes.value(),
               output.counters().ecn_marked.value(), output.longest_bytes(),
               output.counters().pauses.value());
  }
  if (silent > 0) fmt::print(out, "... and {} ports whose queue was never 4 KiB long\n", silent);
}

nlohmann::json switches_json(Simulation& simulation) {
  nlohmann::json switches = nlohmann::json::array();
  for (std::size_t i = 0; i < simulation.scenario().nodes.size(); ++i) {
    const NodeSpec& node = simulation.scenario().nodes[i];
    if (node.is_host) continue;
    const auto& c =
        simulation.network().switch_at(static_cast<stack::sim::NodeIndex>(i)).counters();
    switches.push_back({{"name", node.name},
                        {"forwarded", c.forwarded.value()},
                        {"flooded", c.flooded.value()},
                        {"dropped_queue_full", c.dropped_queue_full.value()},
                        {"dropped_same_port", c.dropped_same_port.value()},
                        {"dropped_no_route", c.dropped_no_route.value()},
                        {"dropped_no_mbuf", c.dropped_no_mbuf.value()},
                        {"pfc_sent", c.pfc_sent.value()},
                        {"pfc_received", c.pfc_received.value()},
                        {"pfc_no_mbuf", c.pfc_no_mbuf.value()}});
  }
  return switches;
}

/// The lengths that a queue had at the sampling times from `measure_from` on, in order.
std::vector<double> sorted_lengths(const Simulation& simulation, std::size_t port) {
  const auto& times = simulation.sample_times();
  const double from = static_cast<double>(simulation.scenario().measure_from_ns) * 1e-9;
  const auto skipped = std::lower_bound(times.begin(), times.end(), from) - times.begin();
  const auto& lengths = simulation.queues()[port].values;
  std::vector<double> sorted(lengths.begin() + skipped, lengths.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

nlohmann::json ports_json(const Simulation& simulation) {
  nlohmann::json ports = nlohmann::json::array();
  for (const SwitchPort& port : simulation.switch_ports()) {
    const std::vector<double> lengths = sorted_lengths(simulation, ports.size());
    const stack::net::OutputPort& output = port.channel->output();
    ports.push_back({{"name", port.name},
                     {"packets", port.channel->counters().packets.value()},
                     {"bytes", port.channel->counters().bytes.value()},
                     {"ecn_marked", output.counters().ecn_marked.value()},
                     {"ecn_not_marked", output.counters().ecn_not_marked.value()},
                     {"pauses", output.counters().pauses.value()},
                     {"longest_queue_bytes", output.longest_bytes()}});
    if (!lengths.empty()) {
      ports.back()["queue_bytes"] = {{"average", average(lengths)},
                                     {"p50", percentile(lengths, 0.5)},
                                     {"p90", percentile(lengths, 0.9)},
                                     {"p99", percentile(lengths, 0.99)}};
    }
  }
  return ports;
}

nlohmann::json flows_json(const Simulation& simulation, const Slowdowns& slowdowns) {
  nlohmann::json flows = nlohmann::json::array();
  for (const auto& flow : simulation.flows()) {
    const FlowSpec& spec = flow->spec();
    const FlowResult& result = flow->result();
    flows.push_back({{"name", spec.name},
                     {"from", simulation.scenario().nodes[spec.from].name},
                     {"to", simulation.scenario().nodes[spec.to].name},
                     {"posted", result.posted},
                     {"completed", result.completed},
                     {"failed", result.failed},
                     {"delivered", result.delivered},
                     {"bytes", result.bytes},
                     {"bit_per_s", simulation.measured_rate(*flow)},
                     {"latency_avg_us", average_us(result)},
                     {"latency_max_us", static_cast<double>(result.latency_max_ns) * 1e-3},
                     {"size", spec.size},
                     {"start_us", static_cast<double>(spec.start_ns) * 1e-3}});
    if (const auto slowdown = slowdowns[flows.size() - 1]) flows.back()["slowdown"] = *slowdown;
  }
  return flows;
}

nlohmann::json groups_json(const Simulation& simulation, const Slowdowns& slowdowns) {
  nlohmann::json groups = nlohmann::json::array();
  for (std::size_t i = 0; i < simulation.scenario().groups.size(); ++i) {
    const GroupSum sum = sum_of(simulation, i);
    const auto& latency = simulation.latencies()[i];
    nlohmann::json object{{"name", simulation.scenario().groups[i]},
                          {"flows", sum.flows},
                          {"completed", sum.completed},
                          {"failed", sum.failed},
                          {"bit_per_s", sum.rate},
                          {"fairness", simulation.fairness(i)}};
    if (latency.count() > 0) {
      object["latency_us"] = {{"average", latency.summary(1).average_ns * 1e-3},
                              {"p50", latency.percentile_ns(0.5) * 1e-3},
                              {"p90", latency.percentile_ns(0.9) * 1e-3},
                              {"p99", latency.percentile_ns(0.99) * 1e-3},
                              {"p99.9", latency.percentile_ns(0.999) * 1e-3}};
    }
    const std::vector<double> slowest = sorted_slowdowns(simulation, slowdowns, i);
    if (!slowest.empty()) {
      object["slowdown"] = {{"average", average(slowest)},
                            {"p50", percentile(slowest, 0.5)},
                            {"p99", percentile(slowest, 0.99)}};
    }
    groups.push_back(std::move(object));
  }
  return groups;
}

}  // namespace

void print_report(std::FILE* out, Simulation& simulation) {
  const Scenario& scenario = simulation.scenario();
  const auto hosts = std::count_if(scenario.nodes.begin(), scenario.nodes.end(),
                                   [](const NodeSpec& node) { return node.is_host; });
  fmt::print(out, "{}{} hosts, {} switches, {} flows; {:.6f} s of virtual time; seed {}\n",
             scenario.name.empty() ? "" : scenario.name + ": ", hosts,
             scenario.nodes.size() - static_cast<std::size_t>(hosts), scenario.flows.size(),
             static_cast<double>(simulation.passed_ns()) * 1e-9, scenario.seed);
  print_flows(out, simulation);
  print_groups(out, simulation);
  print_ports(out, simulation);
  for (const nlohmann::json& fabric : switches_json(simulation)) {
    fmt::print(out, "\nswitch {}\n", fabric["name"].get<std::string>());
    for (const auto& [name, value] : fabric.items()) {
      if (value.is_number() && value != 0) {
        fmt::print(out, "  {:<32} {}\n", name, value.get<std::uint64_t>());
      }
    }
  }
  fmt::print(out, "\nall hosts; counters that are not 0\n");
  for (const auto& [name, value] : host_counters(simulation)) {
    fmt::print(out, "  {:<32} {}\n", name, value);
  }
}

std::string json_report(Simulation& simulation) {
  const Scenario& scenario = simulation.scenario();
  const Slowdowns slowdowns = slowdowns_of(simulation);
  const nlohmann::json report{{"program", "rh-sim"},
                              {"scenario", scenario.name},
                              {"seed", scenario.seed},
                              {"seconds", static_cast<double>(simulation.passed_ns()) * 1e-9},
                              {"groups", groups_json(simulation, slowdowns)},
                              {"flows", flows_json(simulation, slowdowns)},
                              {"switches", switches_json(simulation)},
                              {"switch_ports", ports_json(simulation)},
                              {"counters", host_counters(simulation)}};
  return report.dump();
}

}  // namespace rockhopper::apps::sim
