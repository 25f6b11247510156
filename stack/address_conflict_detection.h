// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/address_table.h"
#include "stack/host_context.h"
#include "stack/neighbour_sender.h"
#include "stack/neighbour_table.h"
#include "stack/random.h"
#include "stack/timing_wheel.h"

namespace rockhopper::stack {

/// When a new address is used.
enum class AddressUse : std::uint8_t {
  at_once,
  /// When nobody else turns out to have it: after 4 to 7 seconds (RFC 5227), 1 to 2 for IPv6 (RFC
  /// 4862). After ten duplicates one address a minute is tried.
  after_probing,
};

/// The way of a host's addresses into use, and what is done if another station has one: duplicate
/// address detection before an address is used, announcements when it begins to be, defence while
/// it is (RFC 5227 for IPv4, RFC 4862 for IPv6). An address is tentative as long as it is probed,
/// and announced only when it is in use.
class AddressConflictDetection {
 public:
  /// All must outlive it.
  AddressConflictDetection(HostContext& host, NeighbourSender& sender, NeighbourTable& neighbours);
  AddressConflictDetection(const AddressConflictDetection&) = delete;
  AddressConflictDetection& operator=(const AddressConflictDetection&) = delete;

  /// An address has been added.
  void begin(const IpAddress& address, AddressUse use);
  /// Another station has the address, or would like to. Returns true if it is one that we would
  /// like to have: that ends it.
  [[nodiscard]] bool on_claim(const IpAddress& address);
  /// Another station claims an address in use.
  void defend(const IpAddress& address, std::uint64_t now_ns);

 private:
  void start_using(AddressTable::Entry& entry);
  void probe_due(std::uint64_t now_ns);
  void probe(AddressTable::Entry& entry, std::uint64_t now_ns);
  void announce_due(std::uint64_t now_ns);

  HostContext& host_;
  NeighbourSender& sender_;
  NeighbourTable& neighbours_;
  Timer announce_timer_;
  Timer probe_timer_;
  Random jitter_;
  std::uint8_t conflicts_ = 0;         ///< new addresses that others had, kMaxConflicts at most
  std::uint64_t next_attempt_ns_ = 0;  ///< after many of those: when the next one may be probed
};

}  // namespace rockhopper::stack
