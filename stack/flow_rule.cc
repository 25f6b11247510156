// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/flow_rule.h"

#include <array>

#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_flow.h>

namespace rockhopper::stack {
namespace {

/// Asks first, as some drivers accept in rte_flow_create() what they then do not do.
int create(std::uint16_t port_id, const FlowRule& rule, rte_flow_item_type l3,
           rte_flow_error& error) {
  rte_flow_item_udp udp{};
  udp.hdr.dst_port = rte_cpu_to_be_16(rule.udp_port);
  rte_flow_item_udp udp_mask{};
  udp_mask.hdr.dst_port = 0xffff;
  rte_flow_item_raw byte{};
  byte.relative = 1;  // to the end of the UDP header
  byte.offset = rule.payload_offset;
  byte.length = 1;
  byte.pattern = &rule.value;
  rte_flow_item_raw byte_mask{};
  byte_mask.relative = 1;
  byte_mask.search = 1;
  byte_mask.offset = -1;
  byte_mask.limit = UINT16_MAX;
  byte_mask.length = UINT16_MAX;
  byte_mask.pattern = &rule.mask;
  const std::array<rte_flow_item, 5> pattern{{{RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr},
                                              {l3, nullptr, nullptr, nullptr},
                                              {RTE_FLOW_ITEM_TYPE_UDP, &udp, nullptr, &udp_mask},
                                              {RTE_FLOW_ITEM_TYPE_RAW, &byte, nullptr, &byte_mask},
                                              {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr}}};
  const rte_flow_action_queue queue{rule.queue};
  const std::array<rte_flow_action, 2> actions{
      {{RTE_FLOW_ACTION_TYPE_QUEUE, &queue}, {RTE_FLOW_ACTION_TYPE_END, nullptr}}};
  rte_flow_attr attributes{};
  attributes.ingress = 1;
  const int result =
      rte_flow_validate(port_id, &attributes, pattern.data(), actions.data(), &error);
  if (result != 0) return result;
  const rte_flow* flow =
      rte_flow_create(port_id, &attributes, pattern.data(), actions.data(), &error);
  return flow != nullptr ? 0 : -rte_errno;
}

}  // namespace

Expected<void> create_flow(std::uint16_t port_id, const FlowRule& rule, bool over_ipv4) {
  rte_flow_error error{};
  const int result =
      create(port_id, rule, over_ipv4 ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6, error);
  if (result == 0) return {};
  return fail(ErrorCode::unsupported, "no rule for a queue: {}",
              error.message != nullptr ? error.message : rte_strerror(-result));
}

void flush_flows(std::uint16_t port_id) {
  rte_flow_error error{};
  (void)rte_flow_flush(port_id, &error);
}

}  // namespace rockhopper::stack
