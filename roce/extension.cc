// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/extension.h"

#include <algorithm>
#include <cassert>

#include "roce/congestion/pacer.h"

namespace rockhopper::roce {

Extension::Extension(Engine& engine) : engine_(engine) {
  assert(engine.extension_ == nullptr);
  engine.extension_ = this;
}

Extension::~Extension() { engine_.extension_ = nullptr; }

Expected<void> Extension::check_receive_side(ProtectionDomain pd, const SharedReceiveQueue* srq,
                                             const CompletionQueue* cq) const {
  if (!engine_.has_pd(pd)) {
    return fail(ErrorCode::not_found, "no such protection domain");
  }
  if (srq == nullptr || cq == nullptr || engine_.find_srq(srq->number()) != srq) {
    return fail(ErrorCode::invalid_argument,
                "a shared receive queue of the engine and a completion queue are needed");
  }
  return {};
}

Expected<QueuePair*> Extension::create_qp(wire::Qpn number, const QpInit& init,
                                          const TransportMaker& make_transport) const {
  assert(is_dc(init.qp_type));
  if (init.qp_type == QpType::dc_initiator && !engine_.has_pd(init.pd)) {
    return fail(ErrorCode::not_found, "no such protection domain");
  }
  ROCKHOPPER_TRY(engine_.check_sizes(init));
  if (init.lock_execution) {
    engine_.need_locks();
  }
  engine_.extension_qps_.emplace_back(new QueuePair(engine_, number, init, make_transport));
  Engine::count_users(init, 1);
  return engine_.extension_qps_.back().get();
}

void Extension::destroy_qp(QueuePair* qp) const {
  auto& qps = engine_.extension_qps_;
  // Those that were made last go first, as a rule.
  const auto found = std::find_if(qps.rbegin(), qps.rend(),
                                  [qp](const auto& candidate) { return candidate.get() == qp; });
  assert(found != qps.rend());
  Engine::count_users(qp->init_, -1);
  std::swap(*found, qps.back());
  qps.pop_back();
}

void Extension::assign(QueuePair& qp, wire::Qpn number, ProtectionDomain pd,
                       SharedReceiveQueue* srq, CompletionQueue* recv_cq) {
  assert(qp.state() == QpState::reset);
  qp.number_ = number;
  qp.init_.pd = pd;
  qp.init_.recv_cq = recv_cq;
  qp.srq_ = srq;
}

void Extension::start_initiator(QueuePair& qp, const QpAttributes& attributes) {
  qp.apply(attributes,
           kQpPkeyIndex | kQpPathMtu | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic);
  qp.enter_state(QpState::rtr);
  qp.enter_state(QpState::rts);
}

void Extension::start_responder(QueuePair& qp, const QpAttributes& attributes) {
  qp.apply(attributes, kQpAccessFlags | kQpPkeyIndex | kQpAv | kQpPathMtu | kQpRqPsn |
                           kQpMinRnrTimer | kQpMaxDestRdAtomic | kQpDestQpn);
  qp.enter_state(QpState::rtr);
}

void Extension::redirect(QueuePair& qp, const AddressVector& av, wire::Qpn destination,
                         PathMtu mtu) {
  if (qp.pacer_ != nullptr && av != qp.attributes_.ah_attr) {
    qp.pacer_->reset();  // it knows another path
  }
  qp.attributes_.ah_attr = av;
  qp.attributes_.dest_qp_num = destination;
  qp.attributes_.path_mtu = mtu;
  qp.configure_flow();
}

}  // namespace rockhopper::roce
