// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "apps/node/segment_end.h"
#include "stack/counter.h"
#include "stack/error.h"
#include "stack/host.h"
#include "stack/interface_address.h"
#include "stack/link.h"
#include "stack/segment/segment_link.h"

namespace rockhopper {

struct SegmentGatewayConfig {
  std::string directory{};  ///< empty: the one of this user and network namespace
  std::vector<stack::InterfaceAddress> addresses{};  ///< of the segment; not empty
  std::uint16_t mtu = 1500;     ///< largest IP packet in bytes that leaves and comes
  rte_mempool* pool = nullptr;  ///< for all that leaves; not owned, with room for a frame of `mtu`
  std::uint64_t seed = 1;
};

#define ROCKHOPPER_SEGMENT_GATEWAY_COUNTERS(X)                                            \
  X(out_foreign_source, "frames of processes dropped: their source is not their address") \
  X(out_own_destination, "frames of processes dropped: they are for these processes")     \
  X(in_truncated, "frames from outside dropped: shorter than an Ethernet header")         \
  X(in_not_ours, "frames from outside dropped: for another station")                      \
  X(in_own_source, "frames from outside dropped: their source is the segment's address")  \
  X(in_refused, "frames from outside dropped: their process takes none out of its lane")  \
  X(in_for_all, "messages about neighbours and paths that all processes got")             \
  X(in_for_host, "frames from outside that are for no process: requests of addresses, pings")

struct SegmentGatewayCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_SEGMENT_GATEWAY_COUNTERS)
};

/// The way out of a segment, as a link whose other end is all its processes: what they send to
/// other stations comes out of it, and what is put into it is sorted by who has the queue pair. It
/// answers for the segment's addresses (ARP, neighbour discovery, ping), whether there are
/// processes or not; these ask by themselves, and what they are answered all of them get.
///
/// It takes all packets at once: what a process has no room for is dropped, so that one that stands
/// still holds up nobody. Packets that are put into it may have other owners, who read them. One
/// thread.
class SegmentGateway final : public stack::Link {
 public:
  /// Joins the segment and takes that role in it. Errors: as SegmentEnd::open().
  [[nodiscard]] static Expected<std::unique_ptr<SegmentGateway>> open(
      const SegmentGatewayConfig& config);

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  [[nodiscard]] rte_ether_addr mac() const override { return segment_->link().mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return segment_->link().mtu(); }

  /// Where the segment is.
  [[nodiscard]] const std::string& directory() const { return segment_->membership().directory(); }
  [[nodiscard]] const SegmentGatewayCounters& counters() const { return counters_; }
  /// Its own, the lanes' and, as "host_NAME", those of who answers for the addresses. Any thread.
  void visit_counters(stack::CounterVisitor visit, void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(stack::CounterTextVisitor visit, void* context);

 private:
  /// It says where a frame from outside goes.
  enum class Receiver : std::uint8_t { processes, all, host, nobody };

  SegmentGateway() = default;
  [[nodiscard]] bool may_leave(const rte_mbuf* packet);
  [[nodiscard]] Receiver receiver_of(const rte_mbuf* packet);

  // In order of construction: each stands on the ones before.
  std::unique_ptr<SegmentEnd> segment_;
  std::unique_ptr<stack::Host> host_;
  SegmentGatewayCounters counters_;
};

}  // namespace rockhopper
