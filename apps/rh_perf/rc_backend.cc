// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/rc_backend.h"

namespace rockhopper::apps::perf {

RcBackend::~RcBackend() {
  for (roce::QueuePair* qp : qps_) {
    engine().destroy_qp(qp);
  }
}

Expected<void> RcBackend::create_queues(const Agreement& agreement) {
  for (std::uint16_t i = 0; i < agreement.qps; ++i) {
    ROCKHOPPER_TRY(create_queue_pair(agreement));
  }
  lock_mode_ = agreement.lock_mode;
  if (lock_mode_ == LockMode::cas) {
    ROCKHOPPER_TRY(cas_locks_, CasLocks::create(engine(), pd(), qps_));
  }
  return {};
}

Expected<void> RcBackend::create_queue_pair(const Agreement& agreement) {
  roce::QpInit init;
  init.pd = pd();
  init.send_cq = cq();
  init.recv_cq = cq();
  init.max_send_wr = agreement.send_depth();
  init.max_recv_wr = agreement.receive_depth;
  init.max_inline_data = agreement.inline_bytes;
  init.lock_execution = agreement.lock_mode == LockMode::target;
  ROCKHOPPER_TRY(auto qp, engine().create_qp(init));
  qps_.push_back(qp);
  ROCKHOPPER_TRY(qp->set_congestion_control(options().congestion));
  ROCKHOPPER_TRY(qp->set_loss_recovery({.adaptive_timeout = options().adaptive_timeout}));
  side().qps.push_back({qp->number().value, engine().random_psn().value});
  roce::QpAttributes attributes;
  attributes.qp_access_flags = kRemoteAccess;
  attributes.pkey_index = options().pkey_index;
  return qp->bring_up(attributes, roce::QpState::init);
}

Expected<void> RcBackend::connect(const Agreement& agreement, const Side& remote) {
  ROCKHOPPER_TRY(endpoint().check_peer(remote.gid));
  set_remote_key(remote.rkey);
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    if (qps_[i]->state() == roce::QpState::rts) continue;
    roce::RecoveryConfig recovery = qps_[i]->loss_recovery();
    if (agreement.selective_repeat) recovery.algorithm = roce::RecoveryAlgorithm::selective_repeat;
    ROCKHOPPER_TRY(qps_[i]->set_loss_recovery(recovery));
    roce::QpAttributes attributes;
    attributes.path_mtu = static_cast<roce::PathMtu>(agreement.path_mtu);
    attributes.dest_qp_num = wire::Qpn::make(remote.qps[i].qpn);
    attributes.rq_psn = wire::Psn::make(remote.qps[i].psn);
    attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(agreement.outstanding_reads);
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.source = side().gid;
    attributes.ah_attr.destination = remote.gid;
    attributes.ah_attr.service_level = agreement.service_level;
    attributes.ah_attr.traffic_class = agreement.traffic_class;
    attributes.timeout = agreement.ack_timeout;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.sq_psn = wire::Psn::make(side().qps[i].psn);
    attributes.max_rd_atomic = static_cast<std::uint8_t>(agreement.outstanding_reads);
    ROCKHOPPER_TRY(qps_[i]->bring_up(attributes, roce::QpState::rts));
  }
  return {};
}

std::size_t RcBackend::post_sends(std::uint16_t qp, std::span<const SendRequest> requests) {
  if (lock_mode_ != LockMode::none) {
    return post_scopes(qp, requests, [&](roce::lock::ScopeBuilder& scope, std::uint64_t id) {
      return lock_mode_ == LockMode::cas ? cas_locks_->post(qp, scope, id, endpoint().now_ns())
                                         : scope.post(*qps_[qp], id, nullptr);
    });
  }
  return post_each(requests, [&](const roce::SendWr& wr) { return qps_[qp]->post_send(wr); });
}

std::size_t RcBackend::post_receives(std::uint16_t qp, std::span<const ReceiveRequest> requests) {
  return post_each(requests, *qps_[qp]);
}

std::size_t RcBackend::poll(std::span<Done> out) {
  if (cas_locks_ == nullptr) return EndpointBackend::poll(out);
  (void)endpoint().turn();
  return cas_locks_->poll(*cq(), endpoint().now_ns(), out);
}

}  // namespace rockhopper::apps::perf
