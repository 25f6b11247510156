// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/dc_backend.h"

#include <utility>

namespace rockhopper::apps::perf {

Expected<std::unique_ptr<DcBackend>> DcBackend::open(std::unique_ptr<Endpoint> endpoint,
                                                     const LocalOptions& options,
                                                     const InitiatorOptions& initiator) {
  std::unique_ptr<DcBackend> backend(new DcBackend(std::move(endpoint), options, initiator));
  ROCKHOPPER_TRY(backend->create_endpoint({}));
  return backend;
}

Expected<void> DcBackend::create_endpoint(const dc::EndpointConfig& config) {
  dc_.reset();  // an engine has one at a time
  ROCKHOPPER_TRY(auto made, DcEndpoint::create(engine(), config));
  dc_.emplace(std::move(made));
  return {};
}

DcBackend::~DcBackend() {
  if (dci_ != nullptr) (*dc_)->destroy_dci(dci_);
  if (peer_ != nullptr) engine().destroy_ah(peer_);
  for (const Target& target : targets_) {
    if (target.dct != nullptr) (*dc_)->destroy_dct(target.dct);
    (void)engine().destroy_srq(target.srq);
  }
}

Expected<void> DcBackend::create_queues(const Agreement& agreement) {
  lock_mode_ = agreement.lock_mode;
  // Whether there are locks is known only now, and the path MTU had to be known before.
  if (lock_mode_ == LockMode::target) ROCKHOPPER_TRY(create_endpoint({.lock_execution = true}));
  for (std::uint16_t i = 0; i < agreement.qps; ++i) {
    ROCKHOPPER_TRY(create_target(agreement));
  }
  return {};
}

Expected<void> DcBackend::create_initiator(const Agreement& agreement) {
  const std::uint32_t targets_of_stream =
      (agreement.qps + initiator_.streams - 1u) / initiator_.streams;
  const std::uint64_t depth = std::uint64_t{targets_of_stream} * agreement.send_depth();
  if (depth > roce::kMaxQpWr) {
    return fail(ErrorCode::invalid_argument,
                "a stream would have {} requests for {} targets outstanding, more than {}: take a "
                "smaller --window, or more --streams",
                depth, targets_of_stream, roce::kMaxQpWr);
  }
  dc::DciInit init;
  init.pd = pd();
  init.send_cq = cq();
  init.max_send_wr = static_cast<std::uint32_t>(depth);
  init.max_inline_data = agreement.inline_bytes;
  init.lock_execution = lock_mode_ == LockMode::target;
  initiator_.apply(init);
  init.path_mtu = static_cast<roce::PathMtu>(agreement.path_mtu);
  init.max_rd_atomic = static_cast<std::uint8_t>(agreement.outstanding_reads);
  init.pkey_index = options().pkey_index;
  init.timeout = agreement.ack_timeout;
  init.congestion = options().congestion;
  ROCKHOPPER_TRY(dci_, (*dc_)->create_dci(init));
  return {};
}

Expected<void> DcBackend::create_target(const Agreement& agreement) {
  ROCKHOPPER_TRY(auto srq, engine().create_srq(
                               {.pd = pd(), .attributes = {.max_wr = agreement.receive_depth}}));
  targets_.push_back({.srq = srq});
  dc::DctInit init;
  init.pd = pd();
  init.srq = srq;
  init.recv_cq = cq();
  init.access_flags = kRemoteAccess;
  init.path_mtu = static_cast<roce::PathMtu>(agreement.path_mtu);
  init.pkey_index = options().pkey_index;
  init.traffic_class = agreement.traffic_class;
  ROCKHOPPER_TRY(auto dct, (*dc_)->create_dct(init));
  targets_.back().dct = dct;
  side().qps.push_back({.qpn = dct->number().value, .access_key = dct->access_key()});
  return {};
}

Expected<void> DcBackend::connect(const Agreement& agreement, const Side& remote) {
  ROCKHOPPER_TRY(endpoint().check_peer(remote.gid));
  set_remote_key(remote.rkey);
  remote_ = remote.qps;
  ROCKHOPPER_TRY(peer_, engine().create_ah(pd(), {.source = side().gid,
                                                  .destination = remote.gid,
                                                  .traffic_class = agreement.traffic_class,
                                                  .service_level = agreement.service_level}));
  return create_initiator(agreement);
}

std::size_t DcBackend::post_sends(std::uint16_t qp, std::span<const SendRequest> requests) {
  const auto stream = static_cast<std::uint8_t>(qp % initiator_.streams);
  const QpAddress& target = remote_[qp];
  const auto post = [&](roce::SendWr& wr) {
    wr.ah = peer_;
    wr.remote_qpn = wire::Qpn{target.qpn};
    wr.dc_access_key = target.access_key;
    return dci_->post_send(wr, stream);
  };
  if (lock_mode_ == LockMode::none) return post_each(requests, post);
  return post_scopes(qp, requests, [&](roce::lock::ScopeBuilder& scope, std::uint64_t id) {
    const dc::DciInit& init = dci_->init();
    const auto depth = static_cast<std::uint32_t>(dci_->send_queue_depth(stream));
    return scope.post(post,
                      {.path_mtu = bytes(init.path_mtu),
                       .max_rd_atomic = init.max_rd_atomic,
                       .room = init.max_send_wr - depth,
                       .max_sge = init.max_send_sge},
                      id, nullptr);
  });
}

std::size_t DcBackend::post_receives(std::uint16_t qp, std::span<const ReceiveRequest> requests) {
  return post_each(requests, *targets_[qp].srq);
}

void DcBackend::print_statistics() {
  EndpointBackend::print_statistics();
  dc_->print_statistics(stderr);
}

}  // namespace rockhopper::apps::perf
