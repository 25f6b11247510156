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
    const SendWqe::Flush& flush = request_.flush();
    headers.feth = {.reserved26 = 0,
                    .selectivity_level = flush.selectivity_level,
                    .placement_type = flush.placement_type};
  }
  if (info.has(wire::Header::xaeth)) headers.xaeth = masked_atomic_header();
  if (info.has(wire::Header::lketh)) {
    headers.lketh = qp_.lock_wqe(sequence_).header;
    headers.lketh.timeout = qp_.attributes().timeout;
  }
}

wire::Xaeth Requester::RequestPacket::masked_atomic_header() const {
  const SendWqeExtension& masks = qp_.extension(sequence_);
  const SendWqe::Atomic& atomic = request_.atomic();
  return {.subtype = is_compare_swap(request_.opcode) ? wire::Xaeth::kMaskedCompareSwap
                                                      : wire::Xaeth::kMaskedFetchAdd,
          .reserved24 = 0,
          .rkey = static_cast<std::uint32_t>(atomic.remote.rkey),
          .va = atomic.remote.addr,
          .compare = atomic.compare,
          .compare_mask = masks.compare_mask,
          .swap_add = atomic.swap_add,
          .mask = masks.mask};
}

}  // namespace rockhopper::roce::rc
