// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Polling one completion after the other: the functions in ibv_cq_ex. They are called with the
// pointer that create_cq_ex() has returned, and do not look at it twice.
#include "apps/verbs/objects/cq_ex.h"

#include <cerrno>

#include <arpa/inet.h>

#include "apps/verbs/objects/convert.h"

namespace rockhopper::verbs {
namespace {

const roce::Completion& current(ibv_cq_ex* verbs) { return Cq::from(verbs)->current(); }

void show(Cq& cq) {
  cq.wr_id = cq.current().wr_id;
  cq.status = status_of(cq.current().status);
}

int start_poll(ibv_cq_ex* verbs, ibv_poll_cq_attr* attributes) {
  Cq& cq = *Cq::from(verbs);
  if (attributes != nullptr && attributes->comp_mask != 0) return EINVAL;
  if (cq.node().abandoned()) return EIO;
  cq.begin_polling();
  if (!cq.next(true)) {
    cq.end_polling();
    return ENOENT;
  }
  show(cq);
  return 0;
}

int next_poll(ibv_cq_ex* verbs) {
  Cq& cq = *Cq::from(verbs);
  if (!cq.next(false)) return ENOENT;
  show(cq);
  return 0;
}

void end_poll(ibv_cq_ex* verbs) { Cq::from(verbs)->end_polling(); }

ibv_wc_opcode read_opcode(ibv_cq_ex* verbs) { return opcode_of(current(verbs).opcode); }
std::uint32_t read_vendor_err(ibv_cq_ex* /*verbs*/) { return 0; }
unsigned read_wc_flags(ibv_cq_ex* verbs) { return flags_of(current(verbs)); }
std::uint32_t read_byte_len(ibv_cq_ex* verbs) { return current(verbs).byte_len; }

/// The key, where a SEND with Invalidate has arrived.
__be32 read_imm_data(ibv_cq_ex* verbs) {
  const roce::Completion& completion = current(verbs);
  return (completion.wc_flags & roce::kWcWithInv) != 0
             ? static_cast<std::uint32_t>(completion.invalidated_rkey)
             : htonl(completion.imm_data);
}

std::uint32_t read_qp_num(ibv_cq_ex* verbs) { return current(verbs).qp_num.value; }
std::uint32_t read_src_qp(ibv_cq_ex* verbs) { return current(verbs).src_qp.value; }
std::uint32_t read_slid(ibv_cq_ex* /*verbs*/) { return 0; }
std::uint8_t read_sl(ibv_cq_ex* verbs) { return service_level_of(current(verbs)); }
std::uint8_t read_dlid_path_bits(ibv_cq_ex* /*verbs*/) { return 0; }
std::uint64_t read_completion_ts(ibv_cq_ex* verbs) { return Cq::from(verbs)->taken_ns(); }
std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* verbs) {
  const Cq& cq = *Cq::from(verbs);
  return cq.taken_ns() + cq.node().clock().wall_offset_ns();
}

}  // namespace

void set_operations(Cq& cq, std::uint64_t wc_flags) {
  const auto wanted = [wc_flags](std::uint64_t flag) { return (wc_flags & flag) != 0; };
  cq.start_poll = &start_poll;
  cq.next_poll = &next_poll;
  cq.end_poll = &end_poll;
  cq.read_opcode = &read_opcode;
  cq.read_vendor_err = &read_vendor_err;
  cq.read_wc_flags = &read_wc_flags;
  if (wanted(IBV_WC_EX_WITH_BYTE_LEN)) cq.read_byte_len = &read_byte_len;
  if (wanted(IBV_WC_EX_WITH_IMM)) cq.read_imm_data = &read_imm_data;
  if (wanted(IBV_WC_EX_WITH_QP_NUM)) cq.read_qp_num = &read_qp_num;
  if (wanted(IBV_WC_EX_WITH_SRC_QP)) cq.read_src_qp = &read_src_qp;
  if (wanted(IBV_WC_EX_WITH_SLID)) cq.read_slid = &read_slid;
  if (wanted(IBV_WC_EX_WITH_SL)) cq.read_sl = &read_sl;
  if (wanted(IBV_WC_EX_WITH_DLID_PATH_BITS)) cq.read_dlid_path_bits = &read_dlid_path_bits;
  if (wanted(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) cq.read_completion_ts = &read_completion_ts;
  if (wanted(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) {
    cq.read_completion_wallclock_ns = &read_completion_wallclock_ns;
  }
}

}  // namespace rockhopper::verbs
