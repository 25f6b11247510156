// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/dc_lanes.h"

namespace rockhopper::apps::pingpong {

Expected<std::unique_ptr<DcLanes>> DcLanes::create(roce::Engine& engine, const Options& options,
                                                   roce::ProtectionDomain pd,
                                                   roce::CompletionQueue& cq,
                                                   roce::SharedReceiveQueue& srq) {
  std::unique_ptr<DcLanes> lanes(new DcLanes);
  ROCKHOPPER_TRY(lanes->endpoint_, DcEndpoint::create(engine));
  ROCKHOPPER_TRY(lanes->create_initiator(options, pd, cq));
  for (std::uint32_t lane = 0; lane < options.queue_pairs; ++lane) {
    ROCKHOPPER_TRY(lanes->create_target(options, pd, cq, srq));
  }
  return lanes;
}

DcLanes::~DcLanes() {
  if (initiator_ != nullptr) endpoint_->destroy_dci(initiator_);
  for (dc::Dct* target : targets_) {
    endpoint_->destroy_dct(target);
  }
}

Expected<void> DcLanes::create_initiator(const Options& options, roce::ProtectionDomain pd,
                                         roce::CompletionQueue& cq) {
  dc::DciInit init;
  init.pd = pd;
  init.send_cq = &cq;
  init.max_send_wr =
      (options.queue_pairs + options.initiator.streams - 1) / options.initiator.streams;
  options.initiator.apply(init);
  init.path_mtu = static_cast<roce::PathMtu>(options.path_mtu);
  init.pkey_index = options.endpoint.pkey_index;
  init.timeout = static_cast<std::uint8_t>(options.ack_timeout);
  ROCKHOPPER_TRY(initiator_, endpoint_->create_dci(init));
  return {};
}

Expected<void> DcLanes::create_target(const Options& options, roce::ProtectionDomain pd,
                                      roce::CompletionQueue& cq, roce::SharedReceiveQueue& srq) {
  dc::DctInit init;
  init.pd = pd;
  init.srq = &srq;
  init.recv_cq = &cq;
  init.path_mtu = static_cast<roce::PathMtu>(options.path_mtu);
  init.pkey_index = options.endpoint.pkey_index;
  init.traffic_class = static_cast<std::uint8_t>(options.endpoint.traffic_class);
  ROCKHOPPER_TRY(auto target, endpoint_->create_dct(init));
  targets_.push_back(target);
  return {};
}

roce::PostResult DcLanes::post_send(std::size_t lane, const roce::SendWr& request) {
  const auto streams = initiator_->init().streams;
  return initiator_->post_send(request, static_cast<std::uint8_t>(lane % streams));
}

}  // namespace rockhopper::apps::pingpong
