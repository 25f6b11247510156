// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Domains of extended reliable connections (IBTA vol. 1, annex A14).
#include <algorithm>

#include "roce/engine.h"

namespace rockhopper::roce {

XrcDomain Engine::open_xrcd() {
  xrcds_.push_back({next_xrcd_++});
  return xrcds_.back();
}

Expected<void> Engine::close_xrcd(XrcDomain xrcd) {
  if (!has_xrcd(xrcd)) return fail(ErrorCode::not_found, "no such XRC domain");
  const auto used_by = [xrcd](const auto& objects) {
    return std::any_of(objects.begin(), objects.end(), [xrcd](const auto& object) {
      return object != nullptr && object->xrcd() == xrcd;
    });
  };
  if (used_by(qps_) || used_by(srqs_)) {
    return fail(ErrorCode::busy, "the XRC domain still has queue pairs or shared receive queues");
  }
  std::erase(xrcds_, xrcd);
  return {};
}

bool Engine::has_xrcd(XrcDomain xrcd) const {
  return std::find(xrcds_.begin(), xrcds_.end(), xrcd) != xrcds_.end();
}

/// What only the two ends of an extended reliable connection have and have not.
Expected<void> Engine::check_xrc(const QpInit& init) const {
  const bool target = init.qp_type == QpType::xrc_recv;
  if (target != has_xrcd(init.xrcd)) {
    return fail(ErrorCode::invalid_argument, "an XRC domain belongs to a target, and to no other");
  }
  if (target && (init.send_cq != nullptr || init.recv_cq != nullptr)) {
    return fail(ErrorCode::invalid_argument,
                "receives of an XRC target complete in the completion queues of its SRQs");
  }
  if (init.qp_type == QpType::xrc_send && (init.send_cq == nullptr || init.recv_cq != nullptr)) {
    return fail(ErrorCode::invalid_argument,
                "an XRC initiator needs a completion queue for what it sends, and no other");
  }
  if (init.srq != nullptr && (is_xrc(init.qp_type) || init.srq->xrcd() != XrcDomain{})) {
    return fail(ErrorCode::invalid_argument,
                "an SRQ of XRC serves targets, which name it in packets");
  }
  if (init.extended_atomics && init.qp_type != QpType::rc) {
    return fail(ErrorCode::unsupported, "masked atomics are for queue pairs of RC");
  }
  return {};
}

}  // namespace rockhopper::roce
