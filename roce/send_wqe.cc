// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/send_wqe.h"

#include "roce/address_handle.h"
#include "roce/lock/request.h"

namespace rockhopper::roce {

MemoryRegion SendWqe::RegMr::region() const {
  MemoryRegion region;
  region.base = base;
  region.length = length;
  region.iova = iova;
  region.access = access;
  region.key = key;
  return region;
}

/// Fills in what the kinds have that begin() does not know.
void SendWqe::fill_other(const SendWr& wr, RequestKind kind) {
  switch (kind) {
    case RequestKind::datagram:
      flags |= kDatagram;
      body_.datagram = {.ah_id = wr.ah->id(),
                        .remote_qpn = wr.remote_qpn,
                        .remote_qkey = wr.remote_qkey,
                        .imm_data = wr.imm_data,
                        .pkey_index = wr.pkey_index};
      break;
    case RequestKind::flush:
      length = wr.flush.length;
      body_.flush = {.remote = {.addr = wr.remote_addr, .rkey = wr.rkey},
                     .placement_type = wr.flush.placement_type,
                     .selectivity_level = wr.flush.selectivity_level};
      break;
    case RequestKind::local_inv:
      body_.local_inv = {.key = wr.invalidate_rkey};
      break;
    case RequestKind::bind_mw:
      body_.bind_mw = {.addr = wr.mw_bind.addr,
                       .length = wr.mw_bind.length,
                       .mr = wr.mw_bind.mr,
                       .rkey = wr.rkey,
                       .access = wr.mw_bind.access};
      break;
    case RequestKind::reg_mr:
      body_.reg_mr = {.base = wr.fast_region.base,
                      .length = wr.fast_region.length,
                      .iova = wr.fast_region.iova,
                      .key = wr.fast_region.key,
                      .access = wr.fast_region.access};
      break;
    case RequestKind::lock:
      body_.lock = {.result = wr.lock->result};
      break;
    case RequestKind::send:
    case RequestKind::rdma:
    case RequestKind::atomic:
      break;
  }
}

}  // namespace rockhopper::roce
