// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// How queue pairs are made.
#include "apps/verbs/objects/qp_init.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/cq.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/qp.h"
#include "apps/verbs/objects/qp_ex.h"
#include "apps/verbs/objects/srq.h"
#include "apps/verbs/objects/xrcd.h"

namespace rockhopper::verbs {
namespace {

constexpr std::uint32_t kKnownParts = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                      IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                      IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE |
                                      IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
constexpr std::uint32_t kUnsupportedParts =
    IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;

bool has(const ibv_qp_init_attr_ex& init, std::uint32_t part) {
  return (init.comp_mask & part) != 0;
}

/// What no queue pair has; 0 or an errno.
int check_parts(const ibv_qp_init_attr_ex& init) {
  if ((init.comp_mask & ~kKnownParts) != 0) return EINVAL;
  if (has(init, kUnsupportedParts) || !type_of(number_of(init.qp_type))) return EOPNOTSUPP;
  if (has(init, IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
      (init.create_flags & ~IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0) {
    return EOPNOTSUPP;
  }
  if (has(init, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
      (init.send_ops_flags & ~send_operations(init.qp_type)) != 0) {
    return EOPNOTSUPP;
  }
  return 0;
}

/// The program's object behind an optional pointer. False: it is not this context's.
template <typename T, typename Verbs>
bool find(const Context& context, Verbs* verbs, T*& object) {
  if (verbs == nullptr) return true;
  object = object_of<T>(verbs);
  return object != nullptr && &object->owner() == &context;
}

/// The objects that the queue pair is to use.
struct Parts {
  Pd* pd = nullptr;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  Xrcd* xrcd = nullptr;
};

/// 0 or an errno.
int find_parts(const Context& context, const ibv_qp_init_attr_ex& init, Parts& parts) {
  const bool target = init.qp_type == IBV_QPT_XRC_RECV;
  const bool found =
      (!has(init, IBV_QP_INIT_ATTR_PD) || find(context, init.pd, parts.pd)) &&
      (!has(init, IBV_QP_INIT_ATTR_XRCD) || find(context, init.xrcd, parts.xrcd)) &&
      (target || find(context, init.send_cq, parts.send_cq)) &&
      (target || init.qp_type == IBV_QPT_XRC_SEND || find(context, init.recv_cq, parts.recv_cq)) &&
      (target || find(context, init.srq, parts.srq));
  if (!found) return EINVAL;
  return (target ? parts.xrcd != nullptr : parts.pd != nullptr) ? 0 : EINVAL;
}

roce::QpInit engine_init(const ibv_qp_init_attr_ex& init, const Parts& parts) {
  const ibv_qp_cap& cap = init.cap;
  roce::QpInit to;
  to.qp_type = *type_of(number_of(init.qp_type));
  if (parts.pd != nullptr && parts.xrcd == nullptr) to.pd = parts.pd->engine_pd();
  if (parts.send_cq != nullptr) to.send_cq = &parts.send_cq->queue();
  if (parts.recv_cq != nullptr) to.recv_cq = &parts.recv_cq->queue();
  if (parts.srq != nullptr) to.srq = &parts.srq->queue();
  if (parts.xrcd != nullptr) to.xrcd = parts.xrcd->engine_xrcd();
  // None is what programs ask for that use one direction only. What means nothing is not asked for.
  const bool sends = init.qp_type != IBV_QPT_XRC_RECV;
  const bool receives = parts.srq == nullptr && sends && init.qp_type != IBV_QPT_XRC_SEND;
  to.max_send_wr = std::max(sends ? cap.max_send_wr : 1u, 1u);
  to.max_send_sge = std::max(sends ? cap.max_send_sge : 1u, 1u);
  to.max_recv_wr = receives ? cap.max_recv_wr : 0;
  to.max_recv_sge = std::max(receives ? cap.max_recv_sge : 1u, 1u);
  // Where there is room for elements there is for data, as with Soft-RoCE and RNICs: programs send
  // a few bytes inline without having asked for it.
  const std::uint32_t room = to.max_send_sge * sizeof(ibv_sge);
  to.max_inline_data = sends ? std::max(cap.max_inline_data, room) : 0;
  if (has(init, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
      (init.send_ops_flags & kQpExWithAtomicWrite) != 0) {
    to.max_inline_data = std::max<std::uint32_t>(to.max_inline_data, sizeof(std::uint64_t));
  }
  to.sq_sig_all = init.sq_sig_all != 0;
  to.block_self_multicast = has(init, IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
                            (init.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0;
  return to;
}

ibv_qp* make_qp(Context& context, ibv_qp_init_attr_ex& init) {
  if (const int error = check_parts(init); error != 0) return refuse(error);
  Parts parts;
  if (const int error = find_parts(context, init, parts); error != 0) return refuse(error);
  const Section section(context.node());
  if (!section) return refuse(EIO);
  const auto made = context.engine().create_qp(engine_init(init, parts));
  if (!made) return refuse(made.error());
  auto shared = std::make_shared<SharedQueuePair>(context.engine(), **made);
  auto* qp = new Qp(context, {.qp_context = init.qp_context,
                              .pd = parts.pd,
                              .send_cq = init.send_cq,
                              .recv_cq = init.recv_cq,
                              .srq = init.srq,
                              .xrcd = parts.xrcd,
                              .type = init.qp_type,
                              .shared = std::move(shared)});
  if (has(init, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
    qp->make_batch();
    set_operations(*qp);
  }
  init.cap = capabilities_of(qp->queue_pair().init());
  return qp->verbs();
}

}  // namespace

ibv_qp_cap capabilities_of(const roce::QpInit& init) {
  return {.max_send_wr = init.max_send_wr,
          .max_recv_wr = init.max_recv_wr,
          .max_send_sge = init.max_send_sge,
          .max_recv_sge = init.max_recv_sge,
          .max_inline_data = init.max_inline_data};
}

ibv_qp* create_qp(ibv_pd* verbs, ibv_qp_init_attr* init) {
  auto* pd = object_of<Pd>(verbs);
  if (pd == nullptr || init == nullptr) return refuse(EINVAL);
  ibv_qp_init_attr_ex extended{};
  extended.qp_context = init->qp_context;
  extended.send_cq = init->send_cq;
  extended.recv_cq = init->recv_cq;
  extended.srq = init->srq;
  extended.cap = init->cap;
  std::memcpy(&extended.qp_type, &init->qp_type, sizeof extended.qp_type);  // it may be any number
  extended.sq_sig_all = init->sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = verbs;
  ibv_qp* qp = make_qp(pd->owner(), extended);
  if (qp != nullptr) init->cap = extended.cap;
  return qp;
}

ibv_qp* create_qp_ex(ibv_context* verbs, ibv_qp_init_attr_ex* init) {
  Context* context = Context::from(verbs);
  if (context == nullptr || init == nullptr) return refuse(EINVAL);
  return make_qp(*context, *init);
}

}  // namespace rockhopper::verbs
