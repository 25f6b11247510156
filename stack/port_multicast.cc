// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which group addresses a port receives.
#include <rte_ethdev.h>
#include <rte_log.h>

#include "stack/port.h"

namespace rockhopper::stack {

const char* to_string(MulticastFilter filter) {
  switch (filter) {
    case MulticastFilter::none:
      return "the driver has no filter";
    case MulticastFilter::all:
      return "all groups";
    case MulticastFilter::list:
      return "a list of groups";
  }
  return "invalid";
}

void Port::receive_all_multicast() {
  set_multicast_filter(rte_eth_allmulticast_enable(port_id_) == 0 ? MulticastFilter::all
                                                                  : MulticastFilter::none);
}

MulticastFilter Port::set_multicast_macs(std::span<const rte_ether_addr> macs) {
  // The interface takes a list that it does not change by a pointer to what could be.
  std::vector<rte_ether_addr> list(macs.begin(), macs.end());
  const int result =
      rte_eth_dev_set_mc_addr_list(port_id_, list.data(), static_cast<std::uint32_t>(list.size()));
  if (result == 0) {
    (void)rte_eth_allmulticast_disable(port_id_);
    set_multicast_filter(MulticastFilter::list);
  } else if (multicast_filter_ == MulticastFilter::list) {
    receive_all_multicast();  // too many for the device
  }
  return multicast_filter_;
}

void Port::set_multicast_filter(MulticastFilter filter) {
  if (filter == multicast_filter_) return;
  multicast_filter_ = filter;
  static const int log_type =
      rte_log_register_type_and_pick_level("rockhopper.port", RTE_LOG_NOTICE);
  rte_log(RTE_LOG_INFO, static_cast<std::uint32_t>(log_type), "port %s receives multicast: %s\n",
          name_.c_str(), to_string(filter));
}

}  // namespace rockhopper::stack
