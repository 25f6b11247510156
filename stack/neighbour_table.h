// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include <boost/intrusive/list.hpp>
#include <rte_ether.h>

#include "stack/error.h"
#include "stack/host_counters.h"
#include "stack/ip_address.h"
#include "stack/random.h"
#include "stack/timing_wheel.h"

namespace rockhopper::stack {

/// What the MAC of a flow's next hop is good for.
enum class Resolution { ready, pending, unreachable };

/// Sends the questions of a neighbour table.
class NeighbourSolicitor {
 public:
  NeighbourSolicitor() = default;
  NeighbourSolicitor(const NeighbourSolicitor&) = delete;
  NeighbourSolicitor& operator=(const NeighbourSolicitor&) = delete;
  virtual ~NeighbourSolicitor() = default;
  /// Asks all stations for `target`'s MAC, or only that at `probed`, if not null.
  virtual void solicit(const IpAddress& target, const rte_ether_addr* probed) = 0;
};

/// The neighbours of one interface, of ARP and neighbour discovery alike: the state machine of
/// RFC 4861, section 7.3, and its constants (section 10). Bounded; only entries that are not in use
/// make room for others. Single-threaded.
class NeighbourTable {
 public:
  /// `failed` holds questions down after the retries got no answer; `permanent` never changes.
  enum class State : std::uint8_t {
    incomplete,
    reachable,
    stale,
    delay,
    probe,
    failed,
    permanent,
  };

  static constexpr std::uint64_t kRetransmitNs = 1'000'000'000;
  static constexpr std::uint64_t kReachableNs = 30'000'000'000;
  static constexpr std::uint64_t kDelayFirstProbeNs = 5'000'000'000;
  static constexpr std::uint64_t kHoldDownNs = 3'000'000'000;
  static constexpr std::uint64_t kStaleNs = 600'000'000'000;
  static constexpr unsigned kMaxSolicitations =
      3;  ///< multicast or broadcast, then as many unicast

  /// The references must outlive the table.
  NeighbourTable(std::uint32_t limit, std::uint64_t seed, TimingWheel& timers,
                 NeighbourSolicitor& solicitor, HostCounters& counters);
  ~NeighbourTable();
  NeighbourTable(const NeighbourTable&) = delete;
  NeighbourTable& operator=(const NeighbourTable&) = delete;

  /// Changes whenever a MAC that use() gave out may be outdated, or its next use must be noticed.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  /// For changes outside the table (addresses, gateways) that outdate what was derived from it.
  void invalidate() { ++generation_; }

  /// Gives `mac` if it is known, else starts to look for it.
  [[nodiscard]] Resolution use(const IpAddress& address, std::uint64_t now_ns, rte_ether_addr& mac);

  [[nodiscard]] Expected<void> add_permanent(const IpAddress& address, const rte_ether_addr& mac);

  /// A message meant for us told its sender's MAC (RFC 4861, section 7.2.3; RFC 826). Creates an
  /// entry if `create` and there is room.
  void learn(const IpAddress& address, const rte_ether_addr& mac, bool create,
             std::uint64_t now_ns);

  /// An advertisement (RFC 4861, section 7.2.5) or ARP reply for `address` came. A solicited one
  /// counts as such only while we are asking.
  void advertise(const IpAddress& address, const std::optional<rte_ether_addr>& mac, bool solicited,
                 bool override_mac, std::uint64_t now_ns);

  [[nodiscard]] std::optional<State> state(const IpAddress& address) const;
  [[nodiscard]] std::size_t size() const { return neighbours_.size(); }

 private:
  struct Hash {
    std::uint64_t seed;
    std::size_t operator()(const IpAddress& address) const;
  };
  struct Neighbour : boost::intrusive::list_base_hook<> {
    Neighbour(NeighbourTable& owner, const IpAddress& key);
    NeighbourTable& table;
    const IpAddress address;
    rte_ether_addr mac{};
    State state = State::incomplete;
    std::uint8_t solicitations = 0;
    Timer timer;
  };
  using EvictionList =
      boost::intrusive::list<Neighbour, boost::intrusive::constant_time_size<false>>;
  /// Where among the evictable entries a new one stands.
  enum class Eviction { no, last, first };

  [[nodiscard]] Neighbour* find(const IpAddress& address);
  [[nodiscard]] Neighbour* create(const IpAddress& address);
  void erase(Neighbour& neighbour);
  void enter(Neighbour& neighbour, State state, std::uint64_t deadline_ns,
             Eviction eviction = Eviction::no);
  void enter_reachable(Neighbour& neighbour, std::uint64_t now_ns);
  void enter_stale(Neighbour& neighbour, std::uint64_t now_ns, Eviction eviction);
  void solicit(Neighbour& neighbour, State state, std::uint64_t now_ns);
  void set_mac(Neighbour& neighbour, const rte_ether_addr& mac);
  void on_timer(Neighbour& neighbour, std::uint64_t now_ns);

  std::uint32_t limit_;
  Random random_;
  std::uint64_t generation_ = 1;
  TimingWheel& timers_;
  NeighbourSolicitor& solicitor_;
  HostCounters& counters_;
  std::unordered_map<IpAddress, Neighbour, Hash> neighbours_;
  EvictionList evictable_;  ///< stale and failed ones; the front goes first
};

}  // namespace rockhopper::stack
