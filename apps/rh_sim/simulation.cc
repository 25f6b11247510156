// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/simulation.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <rte_common.h>

namespace rockhopper::apps::sim {
namespace {

/// Headers, trailer and the shortest data room that DPDK likes.
constexpr std::uint32_t kHeaderRoom = 256;
constexpr std::uint32_t kMbufsPerHost = 128;  // bursts and queues of hosts
constexpr std::uint32_t kMbufsMax = 1 << 21;
constexpr std::size_t kEventsPerCheck = 100'000;  // some ten milliseconds of real time

std::uint32_t largest_mtu(const Scenario& scenario) {
  std::uint32_t mtu = 256;
  for (const FlowSpec& flow : scenario.flows) {
    mtu = std::max(mtu, roce::bytes(flow.path_mtu));
  }
  return mtu;
}

/// What can be under way at once, roughly: packets that wait for acknowledgement, and their
/// acknowledgements; of READs and unreliable flows what the window has.
std::uint32_t mbufs_of(const Scenario& scenario) {
  if (scenario.mbufs != 0) return scenario.mbufs;
  std::uint64_t count = 4096 + std::uint64_t{kMbufsPerHost} * scenario.nodes.size();
  for (const FlowSpec& flow : scenario.flows) {
    const std::uint64_t packets =
        flow.window * (std::uint64_t{flow.size} / roce::bytes(flow.path_mtu) + 1);
    const bool bounded =
        flow.transport == roce::QpType::rc && flow.operation != roce::WrOpcode::rdma_read;
    count += 2 * (bounded ? std::min<std::uint64_t>(packets, scenario.max_unacked_packets)
                          : std::min<std::uint64_t>(packets, 65536));
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, kMbufsMax));
}

std::uint16_t data_room(const Scenario& scenario) {
  return static_cast<std::uint16_t>(largest_mtu(scenario) + kHeaderRoom);
}

std::uint64_t shared_bytes(const Scenario& scenario) {
  std::uint64_t most = 64;
  for (const FlowSpec& flow : scenario.flows) {
    most = std::max<std::uint64_t>(most, flow.size);
  }
  return most + roce::kGrhBytes;
}

std::string capture_of(const std::string& path, const std::string& host) {
  const std::filesystem::path file(path);
  return file.parent_path() / (file.stem().string() + "." + host + file.extension().string());
}

}  // namespace

std::vector<std::string> captures_of(const Scenario& scenario, const std::string& capture) {
  std::vector<std::string> captures;
  for (const NodeSpec& node : scenario.nodes) {
    if (node.is_host) captures.push_back(capture_of(capture, node.name));
  }
  return captures;
}

unsigned memory_mb(const Scenario& scenario) {
  constexpr std::uint64_t kMbufOverhead = sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM + 64;
  const std::uint64_t bytes =
      std::uint64_t{mbufs_of(scenario)} * (data_room(scenario) + kMbufOverhead);
  // A quarter more for the holes that plain pages leave, and the EAL's own.
  return static_cast<unsigned>(bytes * 5 / 4 >> 20) + 64;
}

Simulation::Simulation(const Scenario& scenario)
    : scenario_(scenario),
      start_ns_(network_.now_ns()),
      latencies_(scenario.groups.size()),
      sampled_bytes_(scenario.flows.size()) {}

Simulation::~Simulation() = default;

Expected<std::unique_ptr<Simulation>> Simulation::create(const Scenario& scenario,
                                                         const std::string& capture) {
  std::unique_ptr<Simulation> simulation(new Simulation(scenario));
  ROCKHOPPER_TRY(simulation->build(capture));
  return simulation;
}

Expected<void> Simulation::build_network() {
  for (const NodeSpec& node : scenario_.nodes) {
    if (node.is_host) {
      (void)network_.add_host(scenario_.priorities);
    } else {
      (void)network_.add_switch({.pfc = node.pfc,
                                 .priorities = scenario_.priorities,
                                 .pool = pool_.get(),
                                 .seed = scenario_.seed + network_.node_count()});
    }
  }
  for (const LinkSpec& link : scenario_.links) {
    stack::sim::LinkConfig config{.rate_bits_per_s = link.rate_bits_per_s,
                                  .delay_ns = link.delay_ns,
                                  .switch_output = {.queue_packets = SIZE_MAX,
                                                    .queue_bytes = link.queue_bytes,
                                                    .ecn = link.ecn,
                                                    .seed = scenario_.seed + network_.link_count()},
                                  .pool = pool_.get()};
    if (!link.faults.empty()) {
      ROCKHOPPER_TRY(auto faults, stack::parse_faults(link.faults));
      if (link.faults.find("seed=") == std::string::npos) {
        faults.seed = scenario_.seed + network_.link_count();
      }
      config.faults = faults;
    }
    const auto index = network_.add_link(link.first, link.second, config);
    for (unsigned direction = 0; direction < 2; ++direction) {
      const NodeSpec& sender = scenario_.nodes[direction == 0 ? link.first : link.second];
      const NodeSpec& receiver = scenario_.nodes[direction == 0 ? link.second : link.first];
      if (sender.is_host) continue;
      ports_.push_back({fmt::format("{} > {}", sender.name, receiver.name),
                        &network_.channel(index, direction)});
    }
  }
  return network_.build();
}

Expected<void> Simulation::build(const std::string& capture) {
  ROCKHOPPER_TRY(pool_, stack::MbufPool::create({.size = mbufs_of(scenario_),
                                                 .cache = 256,
                                                 .data_room = data_room(scenario_),
                                                 .of_this_process = true}));
  ROCKHOPPER_TRY(memory_, PageMemory::allocate(shared_bytes(scenario_)));
  ROCKHOPPER_TRY(build_network());

  std::vector<std::uint32_t> queue_pairs(scenario_.nodes.size());
  std::vector<std::uint32_t> completions(scenario_.nodes.size());
  for (const FlowSpec& flow : scenario_.flows) {
    for (const auto node : {flow.from, flow.to}) {
      ++queue_pairs[node];
      completions[node] += flow.receives;
    }
  }
  for (std::size_t i = 0; i < scenario_.nodes.size(); ++i) {
    hosts_.emplace_back();
    const NodeSpec& node = scenario_.nodes[i];
    if (!node.is_host) continue;
    ROCKHOPPER_TRY(
        hosts_.back(),
        SimHost::create({.scenario = &scenario_,
                         .network = &network_,
                         .node = static_cast<stack::sim::NodeIndex>(i),
                         .pool = pool_.get(),
                         .memory = {memory_.data(), memory_.size()},
                         .queue_pairs = queue_pairs[i],
                         .completions = completions[i],
                         .capture = capture.empty() ? "" : capture_of(capture, node.name),
                         .latencies = &latencies_}));
  }
  for (const FlowSpec& spec : scenario_.flows) {
    flows_.push_back(std::make_unique<Flow>(spec, start_ns_));
    rates_.push_back({spec.name, {}});
    ROCKHOPPER_TRY(SimHost::join(*flows_.back(), *hosts_[spec.from], *hosts_[spec.to]));
  }
  for (const SwitchPort& port : ports_) {
    queues_.push_back({port.name, {}});
  }
  return {};
}

void Simulation::run(const std::function<bool(std::uint64_t passed_ns)>& go_on) {
  for (const auto& host : hosts_) {
    if (host != nullptr) host->start();
  }
  const std::uint64_t end_ns = start_ns_ + scenario_.duration_ns;
  while (network_.now_ns() < end_ns && !all_done()) {
    const std::uint64_t sample_ns = std::min(network_.now_ns() + scenario_.sample_ns, end_ns);
    while (!network_.run_some(sample_ns, kEventsPerCheck)) {
      if (!go_on(passed_ns())) return;
    }
    sample();
    if (!go_on(passed_ns())) return;
  }
}

void Simulation::sample() {
  sample_times_.push_back(static_cast<double>(passed_ns()) * 1e-9);
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const std::uint64_t bytes = flows_[i]->result().bytes;
    rates_[i].values.push_back(static_cast<double>(bytes - sampled_bytes_[i]) * 8 /
                               static_cast<double>(scenario_.sample_ns));
    sampled_bytes_[i] = bytes;
  }
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    queues_[i].values.push_back(static_cast<double>(ports_[i].channel->output().queued_bytes()));
  }
}

Expected<void> Simulation::finish() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i] != nullptr && !hosts_[i]->finish()) {
      return fail(ErrorCode::io, "the capture of {} is not complete: it could not be written",
                  scenario_.nodes[i].name);
    }
  }
  return {};
}

double Simulation::measured_rate(const Flow& flow) const {
  const FlowResult& result = flow.result();
  const std::uint64_t from_ns =
      std::max({scenario_.measure_from_ns, std::min(result.first_ns, result.last_ns)});
  if (result.last_ns <= from_ns) return 0;
  // A flow that ends by itself is measured to its end, others to that of the run.
  const std::uint64_t to_ns = flow.finished(network_.now_ns()) ? result.last_ns : passed_ns();
  return static_cast<double>(result.measured_bytes) * 8e9 / static_cast<double>(to_ns - from_ns);
}

double Simulation::fairness(std::size_t group) const {
  double sum = 0;
  double squares = 0;
  std::size_t count = 0;
  for (const auto& flow : flows_) {
    if (flow->spec().group != group) continue;
    const double rate = measured_rate(*flow);
    sum += rate;
    squares += rate * rate;
    ++count;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(count) * squares);
}

bool Simulation::all_done() const {
  return std::all_of(flows_.begin(), flows_.end(),
                     [this](const auto& flow) { return flow->finished(network_.now_ns()); });
}

}  // namespace rockhopper::apps::sim
