// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/background.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/event_printer.h"
#include "roce/engine.h"
#include "roce/random.h"
#include "stack/clock.h"
#include "stack/eal.h"
#include "stack/fault_injector.h"
#include "stack/host.h"
#include "stack/mbuf_pool.h"
#include "stack/pcap_writer.h"
#include "stack/port.h"
#include "stack/switched_link.h"
#include "stack/telemetry.h"
#include "stack/tracer.h"
#include "stack/worker.h"

namespace rockhopper::apps {

/// A RoCEv2 endpoint put together from its parts, for a program with one thread:
///   Engine, Host - Worker - FaultInjector - Tracer - PcapWriter - PortQueue
/// so that a capture shows what is on the wire. With several memif links a switch joins the queues
/// of their ports, and a capture shows what is between it and the program. The program calls turn()
/// in its loop. Every part's counters are in telemetry. At most one in a process.
class Endpoint final : public Background {
 public:
  /// Starts the EAL, the port and all above. Says on standard error what the user should know
  /// (seed of faults, where the capture is taken).
  [[nodiscard]] static Expected<std::unique_ptr<Endpoint>> create(
      const EndpointConfig& config, const stack::Arguments& arguments);
  ~Endpoint() override;

  /// Moves packets both ways once. Idle turns follow the idle policy, so do not wait besides.
  bool turn() override;

  /// Waits until the port's link is up (for memif, until the peer has connected), at most the
  /// configured time.
  [[nodiscard]] Expected<void> wait_for_link();
  /// False when the link was up and has been lost: the peer process is gone. Cheap: looks at the
  /// port only now and then.
  [[nodiscard]] bool link_alive();

  [[nodiscard]] roce::Engine& engine() { return *engine_; }
  [[nodiscard]] stack::Host& host() { return *host_; }
  [[nodiscard]] roce::Random& random() { return random_; }
  /// The time that the engine's calls are given.
  [[nodiscard]] std::uint64_t now_ns() const { return clock_->now_ns(); }
  [[nodiscard]] const EndpointConfig& config() const { return config_; }
  [[nodiscard]] const std::string& port_name() const { return first_port().name(); }
  [[nodiscard]] rte_ether_addr mac() const { return first_port().mac(); }
  /// The GID table: the own addresses in order.
  [[nodiscard]] const std::vector<InterfaceAddress>& addresses() const { return config_.addresses; }
  /// The first own address of that family.
  [[nodiscard]] Expected<stack::IpAddress> address_of_family(bool ipv4) const;

  using CounterVisit =
      std::function<void(const char* group, const char* name, std::uint64_t value)>;
  void visit_counters(const CounterVisit& visit) const;
  /// Every counter that is not 0, a line each.
  void print_statistics(std::FILE* out) const;

  /// The worker's sleep while completions are awaited by events, whatever the policy says.
  void set_idle(IdlePolicy idle) { idler_.set_policy(idle); }

 private:
  explicit Endpoint(EndpointConfig config) : config_(std::move(config)), idler_(config_.idle) {}

  [[nodiscard]] Expected<void> open_ports();
  [[nodiscard]] Expected<void> open_port(stack::PortConfig port_config);
  [[nodiscard]] Expected<void> open_switched_ports(const stack::PortConfig& port_config);
  [[nodiscard]] Expected<void> build_links();
  [[nodiscard]] Expected<void> build_host();
  [[nodiscard]] Expected<void> build_engine();
  [[nodiscard]] Expected<void> publish_counters();
  struct NamedCounters {
    std::string group;
    stack::CounterGroup::Visit visit;
    stack::CounterGroup::Describe describe;
  };
  /// Of the port, or of several ports and the switch.
  [[nodiscard]] std::vector<NamedCounters> port_counters() const;
  void print_rates();
  [[nodiscard]] stack::Port& first_port() const { return *ports_.front(); }
  [[nodiscard]] bool link_up() const {
    return switch_ ? switch_->any_up() : first_port().link_up();
  }

  EndpointConfig config_;
  Idler idler_;
  // In order of construction; destroyed from the end on.
  std::unique_ptr<stack::Eal> eal_;
  std::unique_ptr<stack::TscClock> clock_;
  stack::MbufPool packet_pool_;    ///< of what is sent; the port's rings hold its mbufs
  stack::MbufPool switched_pool_;  ///< of several ports, as packets of one are in others' rings
  std::vector<std::unique_ptr<stack::Port>> ports_;
  std::unique_ptr<stack::SwitchedLink> switch_;  ///< of several ports
  std::unique_ptr<stack::PcapWriter> pcap_;
  std::unique_ptr<stack::Tracer> tracer_;
  std::unique_ptr<stack::FaultInjector> faults_;
  stack::Link* link_ = nullptr;  ///< the outermost of them
  std::unique_ptr<stack::Host> host_;
  roce::SystemRandom random_;
  std::unique_ptr<EventPrinter> events_;
  std::unique_ptr<roce::Engine> engine_;
  std::unique_ptr<stack::Worker> worker_;
  std::vector<stack::CounterGroup> groups_;

  std::uint64_t groups_generation_ = 0;  ///< of the host's groups, as the port knows them
  std::uint64_t turns_ = 0;
  bool was_up_ = false;
  bool link_alive_ = true;
  std::uint64_t next_link_check_ns_ = 0;
  std::uint64_t next_rates_ns_ = 0;
  std::uint64_t last_rates_ns_ = 0;
  std::uint64_t last_sent_ = 0;
  std::uint64_t last_received_ = 0;
  std::uint64_t last_sent_bytes_ = 0;
  std::uint64_t last_received_bytes_ = 0;
};

/// Unless it is 0. As print_statistics() does it, for a program that has counters of its own.
void print_counter(std::FILE* out, const char* group, const char* name, std::uint64_t value);

}  // namespace rockhopper::apps
