// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/link.h"

namespace rockhopper::verbs {

Expected<std::unique_ptr<NodeLink>> NodeLink::open(const Settings& settings, rte_mempool* pool,
                                                   std::uint64_t wall_offset_ns) {
  std::unique_ptr<NodeLink> link(new NodeLink);
  ROCKHOPPER_TRY(link->segment_, SegmentEnd::open({}, kMtu, pool));
  link->outermost_ = &link->segment();
  ROCKHOPPER_TRY(link->wrap(settings, pool, wall_offset_ns));
  return link;
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
