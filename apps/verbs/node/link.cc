// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/link.h"

#include <utility>

#include "apps/node/segment_management.h"
#include "roce/udp_identification.h"
#include "stack/kernel_addresses.h"

namespace rockhopper::verbs {

Expected<std::unique_ptr<NodeLink>> NodeLink::open(const Settings& settings, rte_mempool* pool,
                                                   std::uint64_t wall_offset_ns,
                                                   std::uint64_t seed) {
  std::unique_ptr<NodeLink> link(new NodeLink);
  SegmentEndConfig segment{.mtu = kMtu,
                           .pool = pool,
                           .find_receiver = &find_manager,
                           .wants_icrc = !settings.pcap.empty() || settings.faults.has_value()};
  if (settings.uplink == UplinkKind::rh_switch) {
    segment.way_out = stack::segment::WayOut::gateway;
    for (const stack::DeviceAddress& own : settings.addresses) {
      segment.addresses.push_back({own.address, own.prefix_length});
    }
  }
  ROCKHOPPER_TRY(link->segment_, SegmentEnd::open(std::move(segment)));
  link->outermost_ = &link->segment();
  if (settings.uplink == UplinkKind::udp) ROCKHOPPER_TRY(link->add_uplink(settings, pool, seed));
  link->meter_ = std::make_unique<PortMeter>(*link->outermost_);
  link->outermost_ = link->meter_.get();
  ROCKHOPPER_TRY(link->wrap(settings, pool, wall_offset_ns));
  return link;
}

/// The MTU is the least of those of the interfaces that the addresses are of.
Expected<void> NodeLink::add_uplink(const Settings& settings, rte_mempool* pool,
                                    std::uint64_t seed) {
  UplinkConfig config{.segment = segment_.get(),
                      .pool = pool,
                      .mtu = kMtu,
                      .seed = seed,
                      .identification = &roce::kIdentificationRules};
  for (const stack::DeviceAddress& own : settings.addresses) {
    config.addresses.push_back(own.address);
    config.mtu = stack::limit_mtu(config.mtu, own.address);
  }
  ROCKHOPPER_TRY(uplink_, Uplink::open(config));
  outermost_ = uplink_.get();
  return {};
}

std::optional<std::uint32_t> NodeLink::arm() {
  const auto armed = segment().arm();
  if (armed && uplink_ != nullptr && !uplink_->arm()) return std::nullopt;
  return armed;
}

std::optional<stack::KernelSocket> NodeLink::socket_end() const {
  if (uplink_ == nullptr) return std::nullopt;
  return uplink_->socket_end();
}

std::uint64_t NodeLink::discards() const {
  const auto& lanes = segment_->link().counters();
  std::uint64_t sum =
      lanes.tx_lane_full.value() + lanes.tx_no_lane.value() + lanes.tx_too_long.value();
  if (uplink_ != nullptr) sum += uplink_->discards();
  return sum;
}

std::uint64_t NodeLink::damaged() const { return segment_->link().counters().rx_damaged.value(); }

void NodeLink::abandon() noexcept {
  if (segment_ != nullptr) segment_->membership().let_go();
  if (uplink_ != nullptr) uplink_->let_go();
}

Expected<void> NodeLink::wrap(const Settings& settings, rte_mempool* pool,
                              std::uint64_t wall_offset_ns) {
  if (!settings.pcap.empty()) {
    ROCKHOPPER_TRY(pcap_, stack::PcapWriter::open(*outermost_, {.path = settings.pcap,
                                                                .interface_name = "rh0",
                                                                .time_offset_ns = wall_offset_ns}));
    outermost_ = pcap_.get();
  }
  if (settings.faults) {
    faults_ = std::make_unique<stack::FaultInjector>(*outermost_, pool, *settings.faults);
    outermost_ = faults_.get();
  }
  return {};
}

}  // namespace rockhopper::verbs
