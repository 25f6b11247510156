// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/idle.h"
#include "apps/node/segment_gateway.h"
#include "apps/rh_switch/options.h"
#include "stack/clock.h"
#include "stack/eal.h"
#include "stack/fault_injector.h"
#include "stack/mbuf_pool.h"
#include "stack/net/forwarder.h"
#include "stack/net/learning_switch.h"
#include "stack/pcap_writer.h"
#include "stack/port.h"
#include "stack/telemetry.h"

namespace rockhopper::apps::ethernet_switch {

/// One port with what is around it: LearningSwitch - FaultInjector - PcapWriter - PortQueue, so
/// that a capture shows what is on the wire.
struct SwitchPort {
  std::unique_ptr<stack::Port> port;        ///< null: it is a segment
  std::unique_ptr<SegmentGateway> segment;  ///< null: it is a port of DPDK
  std::unique_ptr<stack::PcapWriter> pcap;
  std::unique_ptr<stack::FaultInjector> faults;
  stack::Link* link = nullptr;  ///< the outermost of them

  /// A device has a name; a segment is called by its directory.
  [[nodiscard]] std::string name() const { return port ? port->name() : segment->directory(); }
  [[nodiscard]] std::string driver() const { return port ? port->driver() : "segment"; }
  [[nodiscard]] rte_ether_addr mac() const { return port ? port->mac() : segment->mac(); }
  [[nodiscard]] std::uint16_t mtu() const { return port ? port->mtu() : segment->mtu(); }
  [[nodiscard]] bool link_up() const { return !port || port->link_up(); }
};

/// A switch put together from its parts. Its functions are for one thread. At most one in a
/// process.
class SwitchProgram {
 public:
  /// Starts the EAL, the ports, the telemetry. `options` must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<SwitchProgram>> create(
      const Options& options, const stack::Arguments& arguments);
  SwitchProgram(const SwitchProgram&) = delete;
  SwitchProgram& operator=(const SwitchProgram&) = delete;

  /// Moves packets once from every port. Idle turns follow the idle policy, so do not wait besides.
  void turn();
  /// Completes the captures after the last turn; fails if one of them is not complete.
  [[nodiscard]] Expected<void> finish();

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const std::vector<SwitchPort>& ports() const { return ports_; }
  [[nodiscard]] const stack::net::LearningSwitch& learning_switch() const { return *switch_; }
  /// The device's counters and the switch's.
  void visit_port_counters(PortNumber port, stack::CounterVisitor visit, void* context) const;
  static void describe_port_counters(stack::CounterTextVisitor visit, void* context);
  /// The same of a port that is a segment.
  static void describe_segment_counters(stack::CounterTextVisitor visit, void* context);

 private:
  explicit SwitchProgram(const Options& options)
      : options_(options), idler_(parse_idle(options.idle)) {}
  [[nodiscard]] Expected<void> build();
  [[nodiscard]] Expected<void> open_port(PortNumber number);
  [[nodiscard]] Expected<void> open_device(const PortSettings& settings, SwitchPort& port);
  [[nodiscard]] Expected<void> open_segment(const PortSettings& settings, SwitchPort& port);
  [[nodiscard]] Expected<void> publish_counters();

  const Options& options_;
  Idler idler_;
  // In order of construction; destroyed from the end on, so that nobody reads or moves packets
  // while their owners go.
  std::unique_ptr<stack::Eal> eal_;
  std::unique_ptr<stack::TscClock> clock_;
  stack::MbufPool pool_;  ///< of all ports, as packets of one are in the rings of another
  std::vector<SwitchPort> ports_;
  std::unique_ptr<stack::net::LearningSwitch> switch_;
  std::unique_ptr<stack::net::Forwarder> forwarder_;
  std::vector<stack::CounterGroup> groups_;
};

}  // namespace rockhopper::apps::ethernet_switch
