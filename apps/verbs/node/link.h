// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <rte_mempool.h>

#include "apps/node/segment_end.h"
#include "apps/node/uplink.h"
#include "apps/verbs/node/port_meter.h"
#include "apps/verbs/node/settings.h"
#include "stack/error.h"
#include "stack/fault_injector.h"
#include "stack/link.h"
#include "stack/pcap_writer.h"

namespace rockhopper::verbs {

/// Largest IP packet: a path MTU of 4096 fits.
inline constexpr std::uint16_t kMtu = 4300;

/// The way of a node's packets to the processes of this host, and to other hosts if there is an
/// uplink, with a capture and faults before it, if they are wanted.
class NodeLink {
 public:
  /// `pool` is not owned. `wall_offset_ns` is that of the clock whose times bursts are given,
  /// `seed` of what is chosen at random.
  [[nodiscard]] static Expected<std::unique_ptr<NodeLink>> open(const Settings& settings,
                                                                rte_mempool* pool,
                                                                std::uint64_t wall_offset_ns,
                                                                std::uint64_t seed);
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  /// The outermost link.
  [[nodiscard]] stack::Link& link() { return *outermost_; }
  /// The innermost one, on which a thread sleeps until a packet comes.
  [[nodiscard]] stack::segment::SegmentLink& segment() { return segment_->link(); }
  /// What has crossed the port. Any thread.
  [[nodiscard]] const PortMeter& meter() const { return *meter_; }
  /// Packets that were to leave and were dropped. Any thread.
  [[nodiscard]] std::uint64_t discards() const;
  /// Lanes whose contents made no sense. Any thread.
  [[nodiscard]] std::uint64_t damaged() const;
  /// This process receives from the uplink, for all. Any thread.
  [[nodiscard]] bool receives_for_all() const { return uplink_ != nullptr && uplink_->receives(); }
  /// As that of the segment, for what comes from other hosts too.
  [[nodiscard]] std::optional<std::uint32_t> arm();
  /// What the host has to know of an uplink.
  [[nodiscard]] std::optional<stack::KernelSocket> socket_end() const;
  /// What the host is to do: see stack::HostConfig.
  [[nodiscard]] bool omits_icrc() const { return segment_->omits_icrc(); }
  /// Gives queue pairs the numbers that no other process has.
  [[nodiscard]] roce::QpnAllocator& numbers() { return *segment_; }
  /// This process's place in the segment.
  [[nodiscard]] stack::segment::Membership& membership() { return segment_->membership(); }
  /// What has been captured is in the file from now on.
  void flush_capture() {
    if (pcap_ != nullptr) (void)pcap_->flush();
  }
  /// In a child of fork(). Nothing else may be called then.
  void abandon() noexcept;
  /// Null: there is no capture.
  [[nodiscard]] stack::DropObserver* drop_observer() { return pcap_.get(); }

 private:
  NodeLink() = default;
  [[nodiscard]] Expected<void> add_uplink(const Settings& settings, rte_mempool* pool,
                                          std::uint64_t seed);
  [[nodiscard]] Expected<void> wrap(const Settings& settings, rte_mempool* pool,
                                    std::uint64_t wall_offset_ns);

  // In order of construction: each stands on the ones before.
  std::unique_ptr<SegmentEnd> segment_;
  std::unique_ptr<Uplink> uplink_;
  std::unique_ptr<PortMeter> meter_;
  std::unique_ptr<stack::PcapWriter> pcap_;
  std::unique_ptr<stack::FaultInjector> faults_;
  stack::Link* outermost_ = nullptr;
};

}  // namespace rockhopper::verbs
