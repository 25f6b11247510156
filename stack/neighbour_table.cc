// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/neighbour_table.h"

#include <tuple>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stack/link.h"

namespace rockhopper::stack {
namespace {

bool has_mac(NeighbourTable::State state) {
  return state != NeighbourTable::State::incomplete && state != NeighbourTable::State::failed;
}

}  // namespace

std::size_t NeighbourTable::Hash::operator()(const IpAddress& address) const {
  return XXH3_64bits_withSeed(address.bytes.data(), address.bytes.size(), seed);
}

NeighbourTable::Neighbour::Neighbour(NeighbourTable& owner, const IpAddress& key)
    : table(owner),
      address(key),
      timer(
          [](void* context, std::uint64_t now_ns) {
            auto& neighbour = *static_cast<Neighbour*>(context);
            neighbour.table.on_timer(neighbour, now_ns);
          },
          this) {}

NeighbourTable::NeighbourTable(std::uint32_t limit, std::uint64_t seed, TimingWheel& timers,
                               NeighbourSolicitor& solicitor, HostCounters& counters)
    : limit_(limit),
      random_(seed),
      timers_(timers),
      solicitor_(solicitor),
      counters_(counters),
      neighbours_(0, Hash{seed}) {}

NeighbourTable::~NeighbourTable() { evictable_.clear(); }

NeighbourTable::Neighbour* NeighbourTable::find(const IpAddress& address) {
  const auto found = neighbours_.find(address);
  return found == neighbours_.end() ? nullptr : &found->second;
}

NeighbourTable::Neighbour* NeighbourTable::create(const IpAddress& address) {
  if (neighbours_.size() >= limit_) {
    if (evictable_.empty()) {
      counters_.add(HostEvent::neighbour_table_full);
      return nullptr;
    }
    counters_.add(HostEvent::neighbours_evicted);
    erase(evictable_.front());
  }
  return &neighbours_
              .emplace(std::piecewise_construct, std::forward_as_tuple(address),
                       std::forward_as_tuple(*this, address))
              .first->second;
}

void NeighbourTable::erase(Neighbour& neighbour) {
  if (neighbour.is_linked()) evictable_.erase(EvictionList::s_iterator_to(neighbour));
  ++generation_;
  neighbours_.erase(neighbours_.find(neighbour.address));
}

void NeighbourTable::enter(Neighbour& neighbour, State state, std::uint64_t deadline_ns,
                           Eviction eviction) {
  if (neighbour.is_linked()) evictable_.erase(EvictionList::s_iterator_to(neighbour));
  if (eviction == Eviction::last) evictable_.push_back(neighbour);
  if (eviction == Eviction::first) evictable_.push_front(neighbour);
  neighbour.state = state;
  timers_.arm(neighbour.timer, deadline_ns);
}

void NeighbourTable::enter_reachable(Neighbour& neighbour, std::uint64_t now_ns) {
  // RFC 4861, section 6.3.2: uniformly distributed between 0.5 and 1.5 times the base.
  enter(neighbour, State::reachable, now_ns + kReachableNs / 2 + random_.below(kReachableNs));
}

void NeighbourTable::enter_stale(Neighbour& neighbour, std::uint64_t now_ns, Eviction eviction) {
  // The next use must be noticed, because it starts the way to a probe.
  ++generation_;
  enter(neighbour, State::stale, now_ns + kStaleNs, eviction);
}

void NeighbourTable::solicit(Neighbour& neighbour, State state, std::uint64_t now_ns) {
  if (neighbour.state != state) neighbour.solicitations = 0;
  ++neighbour.solicitations;
  enter(neighbour, state, now_ns + kRetransmitNs + random_.below(kRetransmitNs / 4));
  solicitor_.solicit(neighbour.address, state == State::probe ? &neighbour.mac : nullptr);
}

void NeighbourTable::set_mac(Neighbour& neighbour, const rte_ether_addr& mac) {
  if (rte_is_same_ether_addr(&neighbour.mac, &mac) != 0) return;
  if (has_mac(neighbour.state)) counters_.add(HostEvent::neighbour_mac_changes);
  neighbour.mac = mac;
  ++generation_;
}

Resolution NeighbourTable::use(const IpAddress& address, std::uint64_t now_ns,
                               rte_ether_addr& mac) {
  Neighbour* neighbour = find(address);
  if (neighbour == nullptr) {
    neighbour = create(address);
    if (neighbour == nullptr) return Resolution::unreachable;
    solicit(*neighbour, State::incomplete, now_ns);
    return Resolution::pending;
  }
  switch (neighbour->state) {
    case State::incomplete:
      return Resolution::pending;
    case State::failed:
      return Resolution::unreachable;
    case State::stale:
      enter(*neighbour, State::delay, now_ns + kDelayFirstProbeNs);
      break;
    case State::reachable:
    case State::delay:
    case State::probe:
    case State::permanent:
      break;
  }
  mac = neighbour->mac;
  return Resolution::ready;
}

Expected<void> NeighbourTable::add_permanent(const IpAddress& address, const rte_ether_addr& mac) {
  Neighbour* neighbour = find(address);
  if (neighbour == nullptr) neighbour = create(address);
  if (neighbour == nullptr) {
    return fail(ErrorCode::exhausted, "no room for another neighbour (limit {})", limit_);
  }
  enter(*neighbour, State::permanent, kNever);
  neighbour->mac = mac;
  ++generation_;
  return {};
}

void NeighbourTable::learn(const IpAddress& address, const rte_ether_addr& mac, bool may_create,
                           std::uint64_t now_ns) {
  Neighbour* neighbour = find(address);
  if (neighbour == nullptr) {
    if (!may_create) return;
    neighbour = create(address);
    if (neighbour == nullptr) return;
    neighbour->mac = mac;
    // Made by a peer's wish, not by our use: the first to go, so that a flood displaces itself.
    enter_stale(*neighbour, now_ns, Eviction::first);
    return;
  }
  if (neighbour->state == State::permanent) return;
  if (has_mac(neighbour->state) && rte_is_same_ether_addr(&neighbour->mac, &mac) != 0) return;
  set_mac(*neighbour, mac);
  enter_stale(*neighbour, now_ns, Eviction::last);
}

void NeighbourTable::advertise(const IpAddress& address, const std::optional<rte_ether_addr>& mac,
                               bool solicited, bool override_mac, std::uint64_t now_ns) {
  Neighbour* neighbour = find(address);
  if (neighbour == nullptr || neighbour->state == State::permanent) return;
  const State state = neighbour->state;
  const bool asking = state == State::incomplete || state == State::probe;
  if (!has_mac(state)) {
    if (!mac) return;
    set_mac(*neighbour, *mac);
    if (!solicited || !asking) return enter_stale(*neighbour, now_ns, Eviction::last);
    counters_.add(HostEvent::neighbours_resolved);
    return enter_reachable(*neighbour, now_ns);
  }
  const bool differs = mac && rte_is_same_ether_addr(&neighbour->mac, &*mac) == 0;
  if (differs && !override_mac) {
    if (state == State::reachable) enter_stale(*neighbour, now_ns, Eviction::last);
    return;
  }
  if (differs) set_mac(*neighbour, *mac);
  if (solicited && asking) return enter_reachable(*neighbour, now_ns);
  if (differs) enter_stale(*neighbour, now_ns, Eviction::last);
}

void NeighbourTable::on_timer(Neighbour& neighbour, std::uint64_t now_ns) {
  switch (neighbour.state) {
    case State::incomplete:
      if (neighbour.solicitations < kMaxSolicitations) {
        return solicit(neighbour, State::incomplete, now_ns);
      }
      counters_.add(HostEvent::neighbours_failed);
      ++generation_;
      return enter(neighbour, State::failed, now_ns + kHoldDownNs, Eviction::last);
    case State::reachable:
      return enter_stale(neighbour, now_ns, Eviction::last);
    case State::delay:
      return solicit(neighbour, State::probe, now_ns);
    case State::probe:
      if (neighbour.solicitations < kMaxSolicitations) {
        return solicit(neighbour, State::probe, now_ns);
      }
      // It may have come back with another MAC: ask everyone.
      ++generation_;
      return solicit(neighbour, State::incomplete, now_ns);
    case State::stale:
    case State::failed:
      return erase(neighbour);
    case State::permanent:
      return;
  }
}

std::optional<NeighbourTable::State> NeighbourTable::state(const IpAddress& address) const {
  const auto found = neighbours_.find(address);
  if (found == neighbours_.end()) return std::nullopt;
  return found->second.state;
}

}  // namespace rockhopper::stack
