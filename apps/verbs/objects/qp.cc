// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/qp.h"

#include <algorithm>
#include <utility>

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/cq.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/qp_init.h"
#include "apps/verbs/objects/xrcd.h"

namespace rockhopper::verbs {

Qp::Qp(Context& owner, const Init& init)
    : Object(owner, kKind),
      shared_(init.shared),
      xrcd_(init.xrcd),
      async_events_(qp_base.mutex, qp_base.cond, qp_base.events_completed),
      user_(init.pd) {
  qp_base.context = owner.verbs();
  qp_base.qp_context = init.qp_context;
  qp_base.pd = init.pd;
  qp_base.send_cq = init.send_cq;
  qp_base.recv_cq = init.recv_cq;
  qp_base.srq = init.srq;
  qp_base.handle = id();
  qp_base.qp_num = queue_pair().number().value;
  qp_base.qp_type = init.type;
  show_state();
  pthread_mutex_init(&qp_base.mutex, nullptr);
  pthread_cond_init(&qp_base.cond, nullptr);
  if (xrcd_ != nullptr) {
    xrcd_->count_users(1);
    xrcd_->targets().push_back(this);
  }
  owner.add(*this);
  list();
}

Qp::~Qp() {
  pthread_cond_destroy(&qp_base.cond);
  pthread_mutex_destroy(&qp_base.mutex);
}

void Qp::release() {
  owner().remove(*this);
  if (xrcd_ != nullptr) {
    std::erase(xrcd_->targets(), this);
    xrcd_->count_users(-1);
  }
  shared_.reset();
  user_.release();
}

void Qp::make_batch() {
  const roce::QpInit& has = queue_pair().init();
  batch_ = std::make_unique<SendBatch>(
      SendBatch::Limits{.elements = has.max_send_sge, .inline_bytes = has.max_inline_data});
}

void Qp::on_posted() {
  Progress& progress = node().progress();
  if (qp_base.qp_type == IBV_QPT_UD) return progress.on_datagrams_posted();
  progress.on_posted();
}

void Qp::list() {
  const auto handle_of = [](const auto* object) { return object == nullptr ? 0 : object->handle; };
  const roce::QpAttributes now = queue_pair().query();
  show({.kind = ResourceKind::queue_pair,
        .type = static_cast<std::uint8_t>(qp_base.qp_type),
        .state = static_cast<std::uint8_t>(now.qp_state),
        .values = {handle_of(qp_base.pd), qp_base.qp_num, now.dest_qp_num.value, now.sq_psn.value,
                   now.rq_psn.value, handle_of(qp_base.send_cq), handle_of(qp_base.recv_cq),
                   handle_of(qp_base.srq)}});
}

void Qp::show_state() { qp_base.state = static_cast<ibv_qp_state>(queue_pair().state()); }

ibv_qp* open_qp(ibv_context* verbs, ibv_qp_open_attr* attributes) {
  constexpr std::uint32_t kNeeded =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  Context* context = Context::from(verbs);
  if (context == nullptr || attributes == nullptr || (attributes->comp_mask & kNeeded) != kNeeded ||
      (attributes->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) != 0 ||
      number_of(attributes->qp_type) != IBV_QPT_XRC_RECV) {
    return refuse(EINVAL);
  }
  auto* xrcd = object_of<Xrcd>(attributes->xrcd);
  if (xrcd == nullptr || &xrcd->owner() != context) return refuse(EINVAL);
  const Section section(context->node());
  if (!section) return refuse(EIO);
  const auto& targets = xrcd->targets();
  const auto found = std::ranges::find_if(
      targets, [attributes](Qp* target) { return target->verbs()->qp_num == attributes->qp_num; });
  if (found == targets.end()) return refuse(EINVAL);
  Qp::Init init{.xrcd = xrcd, .type = IBV_QPT_XRC_RECV, .shared = (*found)->shared()};
  if ((attributes->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) {
    init.qp_context = attributes->qp_context;
  }
  return (new Qp(*context, init))->verbs();
}

ibv_qp_ex* qp_to_qp_ex(ibv_qp* verbs) {
  auto* qp = object_of<Qp>(verbs);
  return qp == nullptr || qp->batch() == nullptr ? nullptr : qp;
}

int destroy_qp(ibv_qp* verbs) {
  auto* qp = object_of<Qp>(verbs);
  if (qp == nullptr) return EINVAL;
  {
    const Section section(qp->node());
    if (!section) return 0;
    qp->node().settle();
    qp->owner().remove(*qp);
  }
  qp->async_events().wait();
  const Section section(qp->node());
  if (!section) return 0;
  qp->abandon();
  delete qp;
  return 0;
}

int attach_mcast(ibv_qp* verbs, const ibv_gid* gid, std::uint16_t /*lid*/) {
  auto* qp = object_of<Qp>(verbs);
  if (qp == nullptr || gid == nullptr) return EINVAL;
  const Section section(qp->node());
  if (!section) return EIO;
  const auto attached = qp->owner().engine().attach_multicast(qp->queue_pair(), address_of(*gid));
  return attached ? 0 : errno_of(attached.error());
}

int detach_mcast(ibv_qp* verbs, const ibv_gid* gid, std::uint16_t /*lid*/) {
  auto* qp = object_of<Qp>(verbs);
  if (qp == nullptr || gid == nullptr) return EINVAL;
  const Section section(qp->node());
  if (!section) return EIO;
  const auto detached = qp->owner().engine().detach_multicast(qp->queue_pair(), address_of(*gid));
  return detached ? 0 : errno_of(detached.error());
}

// There are no enhanced connections: librdmacm takes none of an unknown vendor.
int query_ece(ibv_qp* verbs, ibv_ece* ece) {
  return object_of<Qp>(verbs) == nullptr || ece == nullptr ? EINVAL : EOPNOTSUPP;
}

int set_ece(ibv_qp* verbs, ibv_ece* ece) {
  return object_of<Qp>(verbs) == nullptr || ece == nullptr ? EINVAL : EOPNOTSUPP;
}

}  // namespace rockhopper::verbs
