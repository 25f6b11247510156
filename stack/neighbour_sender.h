// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <rte_ether.h>

#include "stack/arp.h"
#include "stack/host_context.h"
#include "stack/neighbour_discovery.h"
#include "stack/neighbour_table.h"

namespace rockhopper::stack {

/// Sends what a host asks and says about addresses of its link, by ARP and neighbour discovery.
class NeighbourSender final : public NeighbourSolicitor {
 public:
  /// `host` must outlive it.
  explicit NeighbourSender(HostContext& host) : host_(host) {}

  void solicit(const IpAddress& target, const rte_ether_addr* probed) override;
  /// Tells the link whose address this is: an ARP announcement (RFC 5227, section 3) or an
  /// unsolicited advertisement (RFC 4861, section 7.2.6). A silent host does not.
  void announce(const IpAddress& address);
  /// Asks whether somebody has it, without saying that we would like to. Returns false if that
  /// cannot be sent.
  [[nodiscard]] bool probe(const IpAddress& address);
  /// Answers a request for an address of ours.
  void reply(const ArpMessage& request);
  /// Advertises an address of ours: to `asker`, or to everybody if that is unspecified, who wants
  /// the address itself (RFC 4861, section 7.2.4).
  void advertise(const IpAddress& address, const IpAddress& asker, const rte_ether_addr& station);

 private:
  bool send_arp(const ArpMessage& message, const rte_ether_addr& destination);
  bool send_message(const NeighbourMessage& message, const IpAddress& source,
                    const IpAddress& destination, const rte_ether_addr& mac);

  HostContext& host_;
};

}  // namespace rockhopper::stack
