// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Requests as ibv_wr_* make them: the functions in ibv_qp_ex. They are called with what
// ibv_qp_to_qp_ex() has returned, and do not look at it twice.
#include "apps/verbs/objects/qp_ex.h"

#include <cerrno>
#include <new>

#include <arpa/inet.h>

#include "apps/verbs/objects/ah.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/mw.h"

namespace rockhopper::verbs {
namespace {

SendBatch& batch_of(ibv_qp_ex* verbs) { return *Qp::from(verbs)->batch(); }

/// Where there is no memory for a request, the batch is refused.
template <typename Fill>
void add(ibv_qp_ex* verbs, roce::WrOpcode opcode, Fill fill) {
  SendBatch& batch = batch_of(verbs);
  try {
    fill(batch.add(opcode, verbs->wr_id, verbs->wr_flags));
  } catch (const std::bad_alloc&) {
    batch.refuse(ENOMEM);
  }
}

/// As add(), about the request in hand.
template <typename Fill>
void change(ibv_qp_ex* verbs, Fill fill) {
  SendBatch& batch = batch_of(verbs);
  if (batch.empty()) return batch.refuse(EINVAL);
  try {
    fill(batch);
  } catch (const std::bad_alloc&) {
    batch.refuse(ENOMEM);
  }
}

void add_remote(ibv_qp_ex* verbs, roce::WrOpcode opcode, std::uint32_t rkey,
                std::uint64_t remote_addr) {
  add(verbs, opcode, [&](roce::SendWr& wr) {
    wr.rkey = roce::MemoryKey{rkey};
    wr.remote_addr = remote_addr;
  });
}

void atomic_cmp_swp(ibv_qp_ex* verbs, std::uint32_t rkey, std::uint64_t remote_addr,
                    std::uint64_t compare, std::uint64_t swap) {
  add(verbs, roce::WrOpcode::atomic_cmp_and_swp, [&](roce::SendWr& wr) {
    wr.rkey = roce::MemoryKey{rkey};
    wr.remote_addr = remote_addr;
    wr.compare_add = compare;
    wr.swap = swap;
  });
}

void atomic_fetch_add(ibv_qp_ex* verbs, std::uint32_t rkey, std::uint64_t remote_addr,
                      std::uint64_t value) {
  add(verbs, roce::WrOpcode::atomic_fetch_and_add, [&](roce::SendWr& wr) {
    wr.rkey = roce::MemoryKey{rkey};
    wr.remote_addr = remote_addr;
    wr.compare_add = value;
  });
}

void bind_window(ibv_qp_ex* verbs, ibv_mw* mw, std::uint32_t rkey,
                 const ibv_mw_bind_info* bind_info) {
  add(verbs, roce::WrOpcode::bind_mw, [&](roce::SendWr& wr) {
    wr.rkey = roce::MemoryKey{rkey};
    if (object_of<Mw>(mw) == nullptr || bind_info == nullptr || !convert(*bind_info, wr.mw_bind)) {
      batch_of(verbs).refuse(EINVAL);
    }
  });
}

void local_inv(ibv_qp_ex* verbs, std::uint32_t invalidate_rkey) {
  add(verbs, roce::WrOpcode::local_inv,
      [&](roce::SendWr& wr) { wr.invalidate_rkey = roce::MemoryKey{invalidate_rkey}; });
}

void rdma_read(ibv_qp_ex* verbs, std::uint32_t rkey, std::uint64_t remote_addr) {
  add_remote(verbs, roce::WrOpcode::rdma_read, rkey, remote_addr);
}

void rdma_write(ibv_qp_ex* verbs, std::uint32_t rkey, std::uint64_t remote_addr) {
  add_remote(verbs, roce::WrOpcode::rdma_write, rkey, remote_addr);
}

void rdma_write_imm(ibv_qp_ex* verbs, std::uint32_t rkey, std::uint64_t remote_addr,
                    __be32 imm_data) {
  add(verbs, roce::WrOpcode::rdma_write_with_imm, [&](roce::SendWr& wr) {
    wr.rkey = roce::MemoryKey{rkey};
    wr.remote_addr = remote_addr;
    wr.imm_data = ntohl(imm_data);
  });
}

void send(ibv_qp_ex* verbs) {
  add(verbs, roce::WrOpcode::send, [](roce::SendWr&) {});
}

void send_imm(ibv_qp_ex* verbs, __be32 imm_data) {
  add(verbs, roce::WrOpcode::send_with_imm,
      [&](roce::SendWr& wr) { wr.imm_data = ntohl(imm_data); });
}

void send_inv(ibv_qp_ex* verbs, std::uint32_t invalidate_rkey) {
  add(verbs, roce::WrOpcode::send_with_inv,
      [&](roce::SendWr& wr) { wr.invalidate_rkey = roce::MemoryKey{invalidate_rkey}; });
}

void send_tso(ibv_qp_ex* verbs, void* /*hdr*/, std::uint16_t /*hdr_sz*/, std::uint16_t /*mss*/) {
  batch_of(verbs).refuse(EOPNOTSUPP);
}

/// The value goes inline.
void atomic_write(ibv_qp_ex* verbs, std::uint32_t rkey, std::uint64_t remote_addr,
                  const void* value) {
  add_remote(verbs, roce::WrOpcode::atomic_write, rkey, remote_addr);
  change(verbs, [value](SendBatch& batch) {
    batch.begin_inline();
    batch.append_inline(value, sizeof(std::uint64_t));
  });
}

void flush(ibv_qp_ex* verbs, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
           std::uint8_t type, std::uint8_t level) {
  add(verbs, roce::WrOpcode::flush, [&](roce::SendWr& wr) {
    wr.rkey = roce::MemoryKey{rkey};
    wr.remote_addr = remote_addr;
    wr.flush = {.length = static_cast<std::uint32_t>(length),
                .placement_type = type,
                .selectivity_level = level};
    if (length > roce::kMaxMessageBytes) batch_of(verbs).refuse(EINVAL);
  });
}

void set_ud_addr(ibv_qp_ex* verbs, ibv_ah* ah, std::uint32_t remote_qpn,
                 std::uint32_t remote_qkey) {
  change(verbs, [&](SendBatch& batch) {
    auto* address = object_of<Ah>(ah);
    if (address == nullptr) return batch.refuse(EINVAL);
    batch.current().ah = &address->address();
    batch.current().remote_qpn = wire::Qpn{remote_qpn};
    batch.current().remote_qkey = remote_qkey;
  });
}

void set_xrc_srqn(ibv_qp_ex* verbs, std::uint32_t remote_srqn) {
  change(verbs, [&](SendBatch& batch) { batch.current().remote_srqn = remote_srqn; });
}

void set_inline_data(ibv_qp_ex* verbs, void* addr, std::size_t length) {
  change(verbs, [&](SendBatch& batch) {
    batch.begin_inline();
    batch.append_inline(addr, length);
  });
}

void set_inline_data_list(ibv_qp_ex* verbs, std::size_t count, const ibv_data_buf* list) {
  change(verbs, [&](SendBatch& batch) {
    batch.begin_inline();
    for (std::size_t i = 0; i < count; ++i) {
      batch.append_inline(list[i].addr, list[i].length);
    }
  });
}

void set_sge(ibv_qp_ex* verbs, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
  const roce::Sge element{.addr = addr, .length = length, .lkey = roce::MemoryKey{lkey}};
  change(verbs, [&](SendBatch& batch) { batch.set_elements({&element, 1}); });
}

void set_sge_list(ibv_qp_ex* verbs, std::size_t count, const ibv_sge* list) {
  change(verbs, [&](SendBatch& batch) { batch.set_elements(elements(list, count)); });
}

void start(ibv_qp_ex* verbs) { batch_of(verbs).begin(); }

int complete(ibv_qp_ex* verbs) {
  Qp& qp = *Qp::from(verbs);
  int error = EIO;
  {
    const Section section(qp.node());
    if (section) {
      error = qp.batch()->post(qp.queue_pair());
      qp.on_posted();
    }
  }
  qp.batch()->end();
  return error;
}

void abort(ibv_qp_ex* verbs) { batch_of(verbs).end(); }

}  // namespace

std::uint64_t send_operations(ibv_qp_type type) {
  constexpr std::uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t kUnreliable = kSends | IBV_QP_EX_WITH_RDMA_WRITE |
                                        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                        IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  constexpr std::uint64_t kReliable =
      kUnreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | kQpExWithAtomicWrite |
      kQpExWithFlush;
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
      return kReliable;
    case IBV_QPT_UC:
      return kUnreliable;
    case IBV_QPT_UD:
      return kSends;
    default:
      return 0;
  }
}

void set_operations(Qp& qp) {
  qp.wr_atomic_cmp_swp = &atomic_cmp_swp;
  qp.wr_atomic_fetch_add = &atomic_fetch_add;
  qp.wr_bind_mw = &bind_window;
  qp.wr_local_inv = &local_inv;
  qp.wr_rdma_read = &rdma_read;
  qp.wr_rdma_write = &rdma_write;
  qp.wr_rdma_write_imm = &rdma_write_imm;
  qp.wr_send = &send;
  qp.wr_send_imm = &send_imm;
  qp.wr_send_inv = &send_inv;
  qp.wr_send_tso = &send_tso;
  qp.wr_set_ud_addr = &set_ud_addr;
  qp.wr_set_xrc_srqn = &set_xrc_srqn;
  qp.wr_set_inline_data = &set_inline_data;
  qp.wr_set_inline_data_list = &set_inline_data_list;
  qp.wr_set_sge = &set_sge;
  qp.wr_set_sge_list = &set_sge_list;
  qp.wr_start = &start;
  qp.wr_complete = &complete;
  qp.wr_abort = &abort;
  qp.wr_atomic_write = &atomic_write;
  qp.set_wr_flush(&flush);
}

}  // namespace rockhopper::verbs
