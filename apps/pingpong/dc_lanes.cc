// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/pingpong/dc_lanes.h"

#include <utility>

namespace rockhopper::apps::pingpong {

Expected<std::unique_ptr<DcLanes>> DcLanes::create(roce::Engine& engine, const Options& options,
                                                   roce::ProtectionDomain pd,
                                                   roce::CompletionQueue& cq,
                                                   roce::SharedReceiveQueue& srq) {
  std::unique_ptr<DcLanes> lanes(new DcLanes);
  auto endpoint = DcEndpoint::create(engine);
  if (!endpoint) return tl::make_unexpected(endpoint.error());
  lanes->endpoint_ = std::move(*endpoint);
  auto made = lanes->create_initiator(options, pd, cq);
  for (std::uint32_t lane = 0; made && lane < options.queue_pairs; ++lane) {
    made = lanes->create_target(options, pd, cq, srq);
  }
  if (!made) return tl::make_unexpected(made.error());
  return lanes;
}

DcLanes::~DcLanes() {
  if (initiator_ != nullptr) endpoint_->destroy_dci(initiator_);
  for (dc::Dct* target : targets_) endpoint_->destroy_dct(target);
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
  auto initiator = endpoint_->create_dci(init);
  if (!initiator) return tl::make_unexpected(initiator.error());
  initiator_ = *initiator;
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
  auto target = endpoint_->create_dct(init);
  if (!target) return tl::make_unexpected(target.error());
  targets_.push_back(*target);
  return {};
}

roce::PostResult DcLanes::post_send(std::size_t lane, const roce::SendWr& request) {
  const auto streams = initiator_->init().streams;
  return initiator_->post_send(request, static_cast<std::uint8_t>(lane % streams));
}

}  // namespace rockhopper::apps::pingpong
