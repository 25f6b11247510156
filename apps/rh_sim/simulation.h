// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/latency_histogram.h"
#include "apps/common/page_memory.h"
#include "apps/rh_sim/flow.h"
#include "apps/rh_sim/scenario.h"
#include "apps/rh_sim/sim_host.h"
#include "stack/mbuf_pool.h"
#include "stack/sim/network.h"

namespace rockhopper::apps::sim {

/// Curves of a run, a value for each sampling time.
struct Curve {
  std::string name;
  std::vector<double> values;
};

/// An output port of a switch: one direction of one link.
struct SwitchPort {
  std::string name;  ///< "switch > neighbour"
  stack::sim::Channel* channel;
};

/// The captures of all hosts that a run writes for the file name `capture`.
[[nodiscard]] std::vector<std::string> captures_of(const Scenario& scenario,
                                                   const std::string& capture);

/// Megabytes that the EAL needs for a scenario.
[[nodiscard]] unsigned memory_mb(const Scenario& scenario);

/// A scenario as it is run: the network, its hosts, their flows, and what is measured of them.
/// Needs a running EAL.
class Simulation {
 public:
  /// `capture` is a file name of which each host gets its own ("run.pcapng": "run.h0.pcapng");
  /// empty: no captures. The scenario must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<Simulation>> create(const Scenario& scenario,
                                                                    const std::string& capture);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation();

  /// Lets the time of the scenario pass, or less when all flows have finished. `go_on` is asked now
  /// and then, and told of the time that has passed; when it says no, that is the end.
  void run(const std::function<bool(std::uint64_t passed_ns)>& go_on);
  /// Fails if a capture is not complete.
  [[nodiscard]] Expected<void> finish();

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] std::uint64_t passed_ns() const { return network_.now_ns() - start_ns_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Flow>>& flows() const { return flows_; }
  [[nodiscard]] const std::vector<LatencyHistogram>& latencies() const { return latencies_; }
  /// In the order of the nodes; null for switches.
  [[nodiscard]] const std::vector<std::unique_ptr<SimHost>>& hosts() const { return hosts_; }
  [[nodiscard]] stack::sim::Network& network() { return network_; }
  [[nodiscard]] const std::vector<SwitchPort>& switch_ports() const { return ports_; }
  /// In seconds.
  [[nodiscard]] const std::vector<double>& sample_times() const { return sample_times_; }
  [[nodiscard]] const std::vector<Curve>& rates() const { return rates_; }    ///< Gbit/s by flow
  [[nodiscard]] const std::vector<Curve>& queues() const { return queues_; }  ///< bytes by port
  /// What a flow got, in bits a second, from `measure_from` on.
  [[nodiscard]] double measured_rate(const Flow& flow) const;
  /// Jain's index of the rates of a group's flows: 1 when all are equal.
  [[nodiscard]] double fairness(std::size_t group) const;
  [[nodiscard]] bool all_done() const;

 private:
  explicit Simulation(const Scenario& scenario);
  [[nodiscard]] Expected<void> build(const std::string& capture);
  [[nodiscard]] Expected<void> build_network();
  void sample();

  const Scenario& scenario_;
  stack::MbufPool pool_;  ///< before all that has mbufs
  PageMemory memory_;
  stack::sim::Network network_;
  std::uint64_t start_ns_;
  std::vector<LatencyHistogram> latencies_;  ///< by group
  std::vector<std::unique_ptr<SimHost>> hosts_;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::vector<SwitchPort> ports_;
  std::vector<double> sample_times_;
  std::vector<std::uint64_t> sampled_bytes_;  ///< by flow, at the last sample
  std::vector<Curve> rates_;
  std::vector<Curve> queues_;
};

}  // namespace rockhopper::apps::sim
