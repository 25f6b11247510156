// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/publisher/dc_reach.h"

namespace rockhopper::publisher {

Expected<std::unique_ptr<DcReach>> DcReach::create(roce::Engine& engine, dc::Endpoint& endpoint,
                                                   roce::ProtectionDomain initiators,
                                                   const DcAddress& address, std::uint32_t receives,
                                                   roce::PathMtu path_mtu) {
  auto made = std::unique_ptr<DcReach>(new DcReach(engine, endpoint));
  auto buffers = ReceiveBuffers::create(engine, made->pd_, receives);
  if (!buffers) return tl::make_unexpected(buffers.error());
  made->receives_ = std::move(*buffers);
  auto dct = endpoint.create_dct({.pd = made->pd_,
                                  .srq = made->receives_->srq(),
                                  .recv_cq = made->receives_->cq(),
                                  .access_flags = roce::kAccessRemoteRead,
                                  .path_mtu = path_mtu});
  if (!dct) return tl::make_unexpected(dct.error());
  made->dct_ = *dct;
  auto ah = engine.create_ah(initiators, address.av);
  if (!ah) return tl::make_unexpected(ah.error());
  made->ah_ = *ah;
  made->peer_.emplace(**ah, address.target, address.access_key);
  return made;
}

DcReach::~DcReach() {
  peer_.reset();
  if (ah_ != nullptr) engine_.destroy_ah(ah_);
  if (dct_ != nullptr) endpoint_.destroy_dct(dct_);
  receives_.reset();
  static_cast<void>(engine_.deallocate_pd(pd_));
}

}  // namespace rockhopper::publisher
