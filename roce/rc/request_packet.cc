// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/request_packet.h"

namespace rockhopper::roce::rc {

/// Adds the headers that only some requests have, and our own.
void Requester::RequestPacket::add_rare_headers(const wire::OpcodeInfo& info,
                                                wire::Headers& headers) const {
  if (info.has(wire::Header::xrceth)) {
    headers.xrceth = {.reserved8 = 0, .xrc_srq = wire::Qpn{qp_.extension(sequence_).remote_srqn}};
  }
  if (info.has(wire::Header::feth)) {
    const FlushInfo flush = request_.flush();
    headers.feth = {.reserved26 = 0,
                    .selectivity_level = flush.selectivity_level,
                    .placement_type = flush.placement_type};
  }
  if (info.has(wire::Header::xaeth)) {
    headers.xaeth = masked_atomic_header();
  }
  if (info.has(wire::Header::lketh)) {
    headers.lketh = qp_.lock_wqe(sequence_).header;
    headers.lketh.timeout = qp_.attributes().timeout;
  }
}

wire::Xaeth Requester::RequestPacket::masked_atomic_header() const {
  const SendWqeExtension& masks = qp_.extension(sequence_);
  const bool swap = request_.opcode == WrOpcode::masked_atomic_cmp_and_swp;
  return {.subtype = swap ? wire::Xaeth::kMaskedCompareSwap : wire::Xaeth::kMaskedFetchAdd,
          .reserved24 = 0,
          .rkey = request_.rkey,
          .va = request_.remote_addr,
          .compare = swap ? request_.compare_add : 0,
          .compare_mask = swap ? masks.compare_add_mask : 0,
          .swap_add = swap ? request_.swap : request_.compare_add,
          .mask = swap ? masks.swap_mask : masks.compare_add_mask};
}

}  // namespace rockhopper::roce::rc
