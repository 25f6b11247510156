// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/link.h"

#include "apps/verbs/node/loop_link.h"

namespace rockhopper::verbs {
namespace {

/// Locally administered, and the same for all processes that hear only themselves.
constexpr rte_ether_addr kLoopMac = {{0x02, 0x52, 0x48, 0x00, 0x00, 0x01}};

}  // namespace

Expected<std::unique_ptr<NodeLink>> NodeLink::open(const Settings& settings, rte_mempool* pool,
                                                   std::uint64_t wall_offset_ns) {
  std::unique_ptr<NodeLink> link(new NodeLink);
  ROCKHOPPER_TRY(link->open_inner(settings, pool));
  ROCKHOPPER_TRY(link->wrap(settings, pool, wall_offset_ns));
  return link;
}

Expected<void> NodeLink::open_inner(const Settings& settings, rte_mempool* pool) {
  if (settings.link == LinkKind::segment) {
    ROCKHOPPER_TRY(segment_, SegmentEnd::open(kMtu, pool));
    outermost_ = &segment_->link();
    doorbell_ = segment_.get();
    return {};
  }
  loop_ = std::make_unique<LoopLink>(kLoopMac, kMtu);
  own_doorbell_ = std::make_unique<LocalDoorbell>();
  outermost_ = loop_.get();
  doorbell_ = own_doorbell_.get();
  return {};
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
