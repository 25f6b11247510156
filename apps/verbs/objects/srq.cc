// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/srq.h"

#include <algorithm>

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/cq.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/xrcd.h"

namespace rockhopper::verbs {
namespace {

roce::SrqAttributes attributes_of(const ibv_srq_attr& from) {
  return {.max_wr = from.max_wr, .max_sge = from.max_sge, .srq_limit = from.srq_limit};
}

/// What XRC needs besides; null for other queues.
struct XrcParts {
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
};

/// In a Section. Tells in `wanted` what the queue has.
ibv_srq* make_srq(Pd& pd, ibv_srq_attr& wanted, void* srq_context, const XrcParts& xrc) {
  roce::SrqInit init;
  init.pd = pd.engine_pd();
  init.attributes = attributes_of(wanted);
  // None is what some programs ask for.
  init.attributes.max_wr = std::max(init.attributes.max_wr, 1u);
  init.attributes.max_sge = std::max(init.attributes.max_sge, 1u);
  if (xrc.xrcd != nullptr) {
    init.xrcd = xrc.xrcd->engine_xrcd();
    init.cq = &xrc.cq->queue();
  }
  const auto queue = pd.owner().engine().create_srq(init);
  if (!queue) return refuse(queue.error());
  const roce::SrqAttributes has = (*queue)->query();
  wanted.max_wr = has.max_wr;
  wanted.max_sge = has.max_sge;
  return new Srq(pd, **queue, srq_context, xrc.xrcd);
}

}  // namespace

Srq::Srq(Pd& owner, roce::SharedReceiveQueue& queue, void* owner_context, Xrcd* xrcd)
    : ibv_srq{},
      Object(owner.owner(), kKind),
      queue_(queue),
      xrcd_(xrcd),
      async_events_(mutex, cond, events_completed),
      user_(&owner) {
  context = Object::owner().verbs();
  srq_context = owner_context;
  pd = &owner;
  handle = id();
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&cond, nullptr);
  if (xrcd_ != nullptr) xrcd_->count_users(1);
  Object::owner().add(*this);
  show({.kind = ResourceKind::shared_receive_queue, .values = {pd->handle, queue_.query().max_wr}});
}

Srq::~Srq() {
  pthread_cond_destroy(&cond);
  pthread_mutex_destroy(&mutex);
}

void Srq::release() {
  owner().remove(*this);
  (void)owner().engine().destroy_srq(&queue_);
  if (xrcd_ != nullptr) xrcd_->count_users(-1);
  user_.release();
}

ibv_srq* create_srq(ibv_pd* verbs, ibv_srq_init_attr* init) {
  auto* pd = object_of<Pd>(verbs);
  if (pd == nullptr || init == nullptr) return refuse(EINVAL);
  const Section section(pd->node());
  if (!section) return refuse(EIO);
  return make_srq(*pd, init->attr, init->srq_context, {});
}

ibv_srq* create_srq_ex(ibv_context* verbs, ibv_srq_init_attr_ex* init) {
  constexpr std::uint32_t kXrc =
      IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  Context* context = Context::from(verbs);
  if (context == nullptr || init == nullptr ||
      (init->comp_mask & ~(IBV_SRQ_INIT_ATTR_RESERVED - 1)) != 0 ||
      (init->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    return refuse(EINVAL);
  }
  unsigned type = IBV_SRQT_BASIC;
  if ((init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0) type = number_of(init->srq_type);
  if (type == IBV_SRQT_TM) return refuse(EOPNOTSUPP);
  auto* pd = object_of<Pd>(init->pd);
  if (pd == nullptr || &pd->owner() != context) return refuse(EINVAL);
  XrcParts xrc;
  if (type == IBV_SRQT_XRC) {
    if ((init->comp_mask & kXrc) != kXrc) return refuse(EINVAL);
    xrc = {object_of<Xrcd>(init->xrcd), object_of<Cq>(init->cq)};
    if (xrc.xrcd == nullptr || xrc.cq == nullptr || &xrc.xrcd->owner() != context ||
        &xrc.cq->owner() != context) {
      return refuse(EINVAL);
    }
  } else if (type != IBV_SRQT_BASIC) {
    return refuse(EINVAL);
  }
  const Section section(context->node());
  if (!section) return refuse(EIO);
  return make_srq(*pd, init->attr, init->srq_context, xrc);
}

int modify_srq(ibv_srq* verbs, ibv_srq_attr* attributes, int mask) {
  auto* srq = object_of<Srq>(verbs);
  if (srq == nullptr || attributes == nullptr) return EINVAL;
  const Section section(srq->node());
  if (!section) return EIO;
  const auto modified =
      srq->queue().modify(attributes_of(*attributes), static_cast<std::uint32_t>(mask));
  return modified ? 0 : errno_of(modified.error());
}

int query_srq(ibv_srq* verbs, ibv_srq_attr* attributes) {
  auto* srq = object_of<Srq>(verbs);
  if (srq == nullptr || attributes == nullptr) return EINVAL;
  const Section section(srq->node());
  if (!section) return EIO;
  const roce::SrqAttributes has = srq->queue().query();
  *attributes = {.max_wr = has.max_wr, .max_sge = has.max_sge, .srq_limit = has.srq_limit};
  return 0;
}

int get_srq_num(ibv_srq* verbs, std::uint32_t* number) {
  auto* srq = object_of<Srq>(verbs);
  if (srq == nullptr || number == nullptr) return EINVAL;
  const Section section(srq->node());
  if (!section) return EIO;
  if (srq->queue().xrcd() == roce::XrcDomain{}) return EINVAL;
  *number = srq->queue().number();
  return 0;
}

int destroy_srq(ibv_srq* verbs) {
  auto* srq = object_of<Srq>(verbs);
  if (srq == nullptr) return EINVAL;
  {
    const Section section(srq->node());
    if (!section) return 0;
    if (srq->queue().users() > 0) return EBUSY;
    srq->owner().remove(*srq);
  }
  srq->async_events().wait();
  const Section section(srq->node());
  if (!section) return 0;
  srq->abandon();
  delete srq;
  return 0;
}

}  // namespace rockhopper::verbs
