// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/node/node.h"
#include "roce/engine.h"
#include "roce/random.h"
#include "stack/fault_injector.h"
#include "stack/host.h"
#include "stack/mbuf_pool.h"
#include "stack/pcap_writer.h"
#include "stack/sim/network.h"
#include "tests/sim/selective_drop.h"

namespace rockhopper::sim {

/// Mbuf pools that outlive the runs, since making one takes longer than most runs: one a node for
/// what it sends, one for what arrives anywhere.
class PoolSet {
 public:
  PoolSet(std::uint32_t mbufs, std::uint16_t data_room, std::uint32_t arriving_mbufs);
  [[nodiscard]] rte_mempool* node(unsigned index) { return pools_.at(index).get(); }
  [[nodiscard]] rte_mempool* arriving() { return pools_[2].get(); }
  [[nodiscard]] std::uint32_t in_use() const;

 private:
  std::array<stack::MbufPool, 3> pools_;
};

/// What a run does to its packets.
struct NetworkFaults {
  stack::FaultRates rates;                 ///< of what each node sends
  std::set<std::uint8_t> dropped_opcodes;  ///< lost besides, in `dropped_percent` of 100 cases
  unsigned dropped_percent = 0;
  /// Lost besides: the nth packet that a node sends, from 0, as (node, n).
  std::set<std::pair<unsigned, std::uint64_t>> dropped_packets;
  /// "Congestion experienced", of packets that are ECN-capable.
  unsigned marked_percent = 0;
};

struct NetworkConfig {
  std::uint64_t seed = 1;
  PoolSet* pools = nullptr;  ///< not owned
  bool ipv6 = false;
  bool static_neighbours = true;
  bool priority_tags = false;
  bool segment_arrivals = false;  ///< received packets are chains cut at random places
  std::uint64_t delay_ns = 1000;
  std::uint32_t wire_packets = 4096;
  std::uint32_t max_unacked_packets = 128;
  std::uint32_t max_held_packets = 1024;
  bool plain_bursts = true;
  NetworkFaults faults;
  std::string capture;  ///< pcapng file of what node 0 sends and receives; empty: none
  /// Instead, pcapng files of what each node sends, before faults, and receives: "PREFIX0.pcapng"
  /// and "PREFIX1.pcapng"; empty: none.
  std::string capture_prefix;
};

/// For NetworkConfig::capture_prefix: in the folder that ROCKHOPPER_CAPTURES names, if any.
[[nodiscard]] std::string wanted_captures(std::uint64_t seed);

/// The nodes' P_Key tables. In their second partition node 1 is a limited member.
inline const std::array<std::vector<std::uint16_t>, 2> kPkeys = {
    {{wire::kDefaultPkey, 0x8321}, {wire::kDefaultPkey, 0, 0x0321}}};
/// The nodes' indexes of each partition.
inline constexpr std::array<std::array<std::uint16_t, 2>, 2> kPartitions = {{{0, 0}, {1, 2}}};

/// One RoCEv2 endpoint of a simulated network.
class SimNode {
 public:
  SimNode(const NetworkConfig& config, unsigned index, stack::sim::Network& network);

  [[nodiscard]] Node& node() { return *node_; }
  [[nodiscard]] roce::Engine& engine() { return node_->engine(); }
  [[nodiscard]] const roce::Engine& engine() const { return node_->engine(); }
  [[nodiscard]] stack::Host& host() { return node_->host(); }
  [[nodiscard]] const stack::IpAddress& address() const { return address_; }
  [[nodiscard]] const stack::FaultInjector& faults() const { return *faults_; }
  [[nodiscard]] std::uint64_t selectively_dropped() const { return selective_->dropped(); }
  [[nodiscard]] std::uint64_t offered() const { return selective_->offered(); }
  [[nodiscard]] std::uint64_t digest() const { return selective_->digest(); }
  void cut(bool cut) { selective_->cut(cut); }
  /// From its nth packet on, counted as offered(), nothing that it sends arrives.
  void cut_from(std::uint64_t number) { selective_->cut_from(number); }

 private:
  stack::IpAddress address_;
  roce::SeededRandom random_;
  std::unique_ptr<stack::PcapWriter> capture_;
  std::unique_ptr<stack::FaultInjector> faults_;
  std::unique_ptr<SelectiveDrop> selective_;
  std::unique_ptr<Node> node_;
};

/// Two endpoints on a link without a rate, polled by turns, one virtual clock. Time stands while
/// there is work and then jumps to the next deadline of anybody, so that a run costs what it does,
/// not how long it waits.
class SimNetwork {
 public:
  explicit SimNetwork(const NetworkConfig& config);

  [[nodiscard]] SimNode& node(unsigned index) { return *nodes_.at(index); }
  [[nodiscard]] std::uint64_t now_ns() const { return network_.now_ns(); }

  /// One turn of both nodes. True if any packet moved.
  bool poll();
  /// Lets time pass to the next deadline, but not beyond `limit_ns`. False: there is none before.
  bool advance(std::uint64_t limit_ns);
  /// Lets time pass to `time_ns`, before which no node has anything to do.
  void advance_to(std::uint64_t time_ns);
  /// Polls until nothing moves and no deadline is left, or `limit_ns` passes: false then.
  bool run_to_rest(std::uint64_t limit_ns);
  /// The earliest deadline of both nodes; kNever at rest.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;
  /// From now on nothing arrives anywhere, until false.
  void cut(bool cut);
  /// Connects a queue pair of each node with the other's and brings both to RTS, with all access
  /// rights. Addresses, numbers and PSNs are seen to; the rest is as `attributes` says.
  void connect(const std::array<roce::QueuePair*, 2>& qps, roce::QpAttributes attributes,
               const std::array<wire::Psn, 2>& first_psns = {});
  /// Times that an idle node asked to be called at once: it would keep a processor busy.
  [[nodiscard]] std::uint64_t busy_deadlines() const { return busy_deadlines_; }

 private:
  stack::sim::Network network_;
  std::array<std::unique_ptr<SimNode>, 2> nodes_;
  std::uint64_t busy_deadlines_ = 0;
};

/// Aborts with the error's text: set-up of a simulation does not fail.
template <typename T>
T must(Expected<T> result);

[[noreturn]] void die(const std::string& text);

template <typename T>
T must(Expected<T> result) {
  if (!result) die(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace rockhopper::sim
