// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/background.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/event_printer.h"
#include "apps/common/file_descriptor.h"
#include "apps/common/idle.h"
#include "apps/node/node.h"
#include "stack/eal.h"

namespace rockhopper::apps {

/// The node of a program with one thread, with DPDK's environment below it, and with what the
/// program says of it on standard error. The program calls turn() in its loop. At most one in a
/// process.
class Endpoint final : public Background {
 public:
  /// Starts the EAL and the node. Says what the user should know (seed of faults, where the capture
  /// is taken).
  [[nodiscard]] static Expected<std::unique_ptr<Endpoint>> create(
      const EndpointConfig& config, const stack::Arguments& arguments);

  /// Leaves last_words(): of a capture that could not be written, of packets that were dropped.
  ~Endpoint() override;

  /// Moves packets both ways once. Idle turns follow the idle policy, so do not wait besides.
  bool turn() override;

  [[nodiscard]] std::string link_name() const override;

  /// Fails if no packet can get to a peer with this address: it is an address of this end, too, or
  /// outside of the subnets of this end's addresses, and there is no gateway.
  [[nodiscard]] Expected<void> check_peer(const stack::IpAddress& peer) const;

  /// As Node::wait_for_link() and Node::check_link(). A signal ends the wait.
  [[nodiscard]] Expected<void> wait_for_link() { return node_->wait_for_link(); }
  [[nodiscard]] bool link_alive() { return node_->check_link(); }

  [[nodiscard]] Node& node() { return *node_; }
  [[nodiscard]] roce::Engine& engine() { return node_->engine(); }
  [[nodiscard]] stack::Host& host() { return node_->host(); }
  [[nodiscard]] roce::Random& random() { return node_->random(); }
  /// The time that the engine's calls are given.
  [[nodiscard]] std::uint64_t now_ns() const { return node_->now_ns(); }
  [[nodiscard]] const EndpointConfig& config() const { return config_; }
  [[nodiscard]] std::string port_name() const { return node_->links().name(); }
  [[nodiscard]] rte_ether_addr mac() const { return node_->mac(); }
  /// The GID table: the own addresses in order.
  [[nodiscard]] const std::vector<InterfaceAddress>& addresses() const { return config_.addresses; }
  /// The first own address of that family.
  [[nodiscard]] Expected<stack::IpAddress> address_of_family(bool ipv4) const;

  using CounterVisit = Node::CounterVisit;
  void visit_counters(const CounterVisit& visit) const { node_->visit_counters(visit); }
  /// Every counter that is not 0, a line each.
  void print_statistics(std::FILE* out) const;

  /// The worker's sleep while completions are awaited by events, whatever the policy says.
  void set_idle(IdlePolicy idle) { node_->set_idle(idle); }

 private:
  explicit Endpoint(const EndpointConfig& config) : config_(config) {}
  void print_rates();
  [[nodiscard]] std::string telling_drops() const;

  EndpointConfig config_;
  // In order of construction; destroyed from the end on.
  FileDescriptor capture_file_;  ///< of a capture that goes to standard output or a FIFO
  std::unique_ptr<stack::Eal> eal_;
  std::unique_ptr<EventPrinter> events_;
  std::unique_ptr<Node> node_;

  std::uint64_t turns_ = 0;
  std::uint64_t next_rates_ns_ = 0;
  std::uint64_t last_rates_ns_ = 0;
  Traffic last_;  ///< as of last_rates_ns_
};

/// Unless it is 0. As print_statistics() does it, for a program that has counters of its own.
void print_counter(std::FILE* out, const char* group, const char* name, std::uint64_t value);

}  // namespace rockhopper::apps
