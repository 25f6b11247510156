// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/private_target.h"

namespace rockhopper::dc {

Expected<std::unique_ptr<PrivateTarget>> PrivateTarget::create(roce::Engine& engine,
                                                               Endpoint& endpoint,
                                                               const TargetAddress& peer,
                                                               const PrivateTargetInit& init) {
  auto made = std::unique_ptr<PrivateTarget>(new PrivateTarget(engine));
  ROCKHOPPER_TRY(made->receives_, roce::ReceiveBuffers::create(engine, made->pd(), init.receives,
                                                               init.receive_bytes));
  DctInit target;
  target.pd = made->pd();
  target.srq = made->receives_->srq();
  target.recv_cq = made->receives_->cq();
  target.access_flags = init.access_flags;
  target.path_mtu = init.path_mtu;
  ROCKHOPPER_TRY(made->dct_, own(endpoint, endpoint.create_dct(target)));
  ROCKHOPPER_TRY(made->ah_, roce::own(engine, engine.create_ah(init.initiators, peer.av)));
  made->peer_.emplace(*made->ah_, peer.number, peer.access_key);
  return made;
}

}  // namespace rockhopper::dc
