// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/qp_attr.h"

#include <algorithm>

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/cq.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/qp.h"
#include "apps/verbs/objects/qp_init.h"

namespace rockhopper::verbs {
namespace {

/// Programs give both ends of an extended connection the attributes of both; those that an end does
/// not have are left out, as the kernel does.
unsigned known_attributes(ibv_qp_type type, unsigned mask) {
  if (type == IBV_QPT_XRC_SEND) return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (type == IBV_QPT_XRC_RECV) {
    return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
  }
  return mask;
}

/// IBTA lets a missing answer be noticed after one to four times the interval that the attribute
/// tells (vol. 1, 9.7.6.1.3). It takes four here: peers share processors with all that runs.
std::uint8_t longest_timeout(std::uint8_t timeout) {
  constexpr std::uint8_t kLast = 31;
  if (timeout == 0 || timeout > kLast) return timeout;  // for ever, or to be refused
  return static_cast<std::uint8_t>(std::min(timeout + 2, int{kLast}));
}

/// A queue pair in that state sends nothing more.
bool ends(ibv_qp_state state) { return state == IBV_QPS_RESET || state == IBV_QPS_ERR; }

/// In a Section. A queue pair that is reset has no completions left from before (IBTA vol. 1,
/// 10.3.1), as a device's driver sees to.
void forget_completions(const Qp& qp) {
  const ibv_qp& verbs = qp.qp_base;
  for (ibv_cq* cq : {verbs.send_cq, verbs.recv_cq}) {
    if (cq != nullptr) Cq::from(cq)->discard(wire::Qpn{verbs.qp_num});
  }
}

}  // namespace

int modify_qp(ibv_qp* verbs, ibv_qp_attr* attributes, int mask) {
  auto* qp = object_of<Qp>(verbs);
  if (qp == nullptr || attributes == nullptr) return EINVAL;
  const Section section(qp->node());
  if (!section) return EIO;
  const unsigned bits = known_attributes(verbs->qp_type, static_cast<unsigned>(mask));
  auto wanted = attributes_of(qp->owner().engine(), *attributes, bits);
  if (!wanted) return errno_of(wanted.error());
  wanted->timeout = longest_timeout(wanted->timeout);
  if ((bits & IBV_QP_STATE) != 0 && ends(attributes->qp_state)) qp->node().settle();
  const auto modified = qp->queue_pair().modify(*wanted, bits);
  qp->show_state();
  qp->list();
  if (!modified) return errno_of(modified.error());
  if ((bits & IBV_QP_STATE) != 0 && attributes->qp_state == IBV_QPS_RESET) forget_completions(*qp);
  if ((bits & IBV_QP_TIMEOUT) != 0) qp->shared()->note_timeout(attributes->timeout);
  qp->node().progress().on_posted();
  return 0;
}

int query_qp(ibv_qp* verbs, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) {
  auto* qp = object_of<Qp>(verbs);
  if (qp == nullptr || attributes == nullptr || init == nullptr) return EINVAL;
  const Section section(qp->node());
  if (!section) return EIO;
  roce::QueuePair& queue_pair = qp->queue_pair();
  *attributes = {};
  convert(qp->owner().engine(), queue_pair.query(), *attributes);
  const std::uint8_t asked = qp->shared()->timeout();
  if (attributes->timeout == longest_timeout(asked)) attributes->timeout = asked;
  attributes->cap = capabilities_of(queue_pair.init());
  if ((mask & IBV_QP_STATE) != 0) qp->show_state();
  *init = {};
  init->qp_context = verbs->qp_context;
  init->send_cq = verbs->send_cq;
  init->recv_cq = verbs->recv_cq;
  init->srq = verbs->srq;
  init->cap = attributes->cap;
  init->qp_type = verbs->qp_type;
  init->sq_sig_all = queue_pair.init().sq_sig_all ? 1 : 0;
  return 0;
}

/// Packets are executed in order, but what a processor's copies of a page look like to another one
/// meanwhile is not promised.
int query_qp_data_in_order(ibv_qp* /*qp*/, ibv_wr_opcode /*opcode*/, std::uint32_t /*flags*/) {
  return 0;
}

}  // namespace rockhopper::verbs
