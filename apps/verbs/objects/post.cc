// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/post.h"

#include <cerrno>
#include <utility>

#include "apps/verbs/objects/ah.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/mw.h"
#include "apps/verbs/objects/qp.h"
#include "apps/verbs/objects/srq.h"

namespace rockhopper::verbs {
namespace {

/// Fills in what names other objects. False: there are no such ones.
bool add_objects(const ibv_send_wr& from, roce::QpType type, roce::SendWr& to) {
  if (type == roce::QpType::ud) {
    const auto* ah = object_of<Ah>(from.wr.ud.ah);
    if (ah == nullptr) return false;
    to.ah = &ah->address();
    to.remote_qpn = wire::Qpn{from.wr.ud.remote_qpn};
    to.remote_qkey = from.wr.ud.remote_qkey;
  }
  if (to.opcode != roce::WrOpcode::bind_mw) return true;
  to.rkey = roce::MemoryKey{from.bind_mw.rkey};
  return object_of<Mw>(from.bind_mw.mw) != nullptr && convert(from.bind_mw.bind_info, to.mw_bind);
}

int post_one(roce::QueuePair& qp, const ibv_send_wr& from) {
  const auto opcode = opcode_of(number_of(from.opcode));
  // What is behind the queue pair's limit of elements is not looked at: it need not be there.
  if (!opcode || from.num_sge < 0 || std::cmp_greater(from.num_sge, qp.init().max_send_sge)) {
    return EINVAL;
  }
  roce::SendWr wr;
  convert(from, *opcode, wr);
  // Requests that only change keys have no list; programs leave there what they had.
  if (!roce::kLocalOpcodes.has(*opcode)) {
    wr.sg_list = elements(from.sg_list, static_cast<std::size_t>(from.num_sge));
  }
  if (!add_objects(from, qp.init().qp_type, wr)) return EINVAL;
  return errno_of(qp.post_send(wr));
}

template <typename Queue>
int post_one(Queue& queue, const ibv_recv_wr& from) {
  if (from.num_sge < 0) return EINVAL;
  return errno_of(
      queue.post_recv({.wr_id = from.wr_id,
                       .sg_list = elements(from.sg_list, static_cast<std::size_t>(from.num_sge))}));
}

/// In a Section.
template <typename Queue, typename Wr>
int post_list(Queue& queue, Wr* list, Wr** bad) {
  for (Wr* wr = list; wr != nullptr; wr = wr->next) {
    if (const int error = post_one(queue, *wr); error != 0) {
      if (bad != nullptr) *bad = wr;
      return error;
    }
  }
  return 0;
}

template <typename Wr>
int refuse_all(Wr* list, Wr** bad, int error) {
  if (bad != nullptr) *bad = list;
  return error;
}

}  // namespace

int post_send(ibv_qp* verbs, ibv_send_wr* list, ibv_send_wr** bad) noexcept {
  auto* qp = object_of<Qp>(verbs);
  if (qp == nullptr) return refuse_all(list, bad, EINVAL);
  const Section section(qp->node());
  if (!section) return refuse_all(list, bad, EIO);
  const int error = post_list(qp->queue_pair(), list, bad);
  qp->on_posted();
  return error;
}

int post_recv(ibv_qp* verbs, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
  auto* qp = object_of<Qp>(verbs);
  if (qp == nullptr) return refuse_all(list, bad, EINVAL);
  const Section section(qp->node());
  if (!section) return refuse_all(list, bad, EIO);
  const int error = post_list(qp->queue_pair(), list, bad);
  qp->node().progress().on_changed();
  return error;
}

int post_srq_recv(ibv_srq* verbs, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
  auto* srq = object_of<Srq>(verbs);
  if (srq == nullptr) return refuse_all(list, bad, EINVAL);
  const Section section(srq->node());
  if (!section) return refuse_all(list, bad, EIO);
  return post_list(srq->queue(), list, bad);
}

}  // namespace rockhopper::verbs
