// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/port_meter.h"

#include <span>

#include <rte_ether.h>
#include <rte_mbuf.h>

#include "stack/roce_locator.h"

namespace rockhopper::verbs {
namespace {

/// What a number of packets come to. The few others, ARP and reports of groups, are for the host
/// and not for the device; all of them are for a group of stations.
struct Sum {
  std::uint64_t unicast = 0;
  std::uint64_t multicast = 0;
  std::uint64_t bytes = 0;
};

Sum sum_of(std::span<rte_mbuf* const> packets) {
  Sum sum;
  for (const rte_mbuf* packet : packets) {
    const bool to_group =
        packet->data_len >= RTE_ETHER_HDR_LEN &&
        rte_is_multicast_ether_addr(rte_pktmbuf_mtod(packet, const rte_ether_addr*)) != 0;
    if (to_group && !stack::read_bth(packet)) continue;
    ++(to_group ? sum.multicast : sum.unicast);
    sum.bytes += packet->pkt_len;
  }
  return sum;
}

void add(PortMeter::Counts& counts, const Sum& sum) {
  counts.unicast.add(sum.unicast);
  if (sum.multicast != 0) counts.multicast.add(sum.multicast);
  counts.bytes.add(sum.bytes);
}

}  // namespace

std::uint16_t PortMeter::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  const std::uint16_t received = inner_.rx_burst(packets, count, now_ns);
  if (received != 0) add(received_, sum_of({packets, received}));
  return received;
}

std::uint16_t PortMeter::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  // What is sent is no longer to be looked at.
  Sum sum = sum_of({packets, count});
  const std::uint16_t sent = inner_.tx_burst(packets, count, now_ns);
  const Sum left = sum_of({packets + sent, static_cast<std::size_t>(count - sent)});
  sum.unicast -= left.unicast;
  sum.multicast -= left.multicast;
  sum.bytes -= left.bytes;
  add(sent_, sum);
  return sent;
}

}  // namespace rockhopper::verbs
