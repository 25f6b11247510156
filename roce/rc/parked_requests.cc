// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/parked_requests.h"

#include <cassert>

#include "roce/segmentation.h"

namespace rockhopper::roce::rc {

std::uint32_t psns_of(const wire::Headers& headers, std::uint32_t mtu) {
  return headers.opcode->operation == wire::Operation::rdma_read_request
             ? packets_of(headers.reth.length, mtu)
             : 1;
}

bool ParkedRequests::begin() {
  if (place_ == nullptr) place_ = service_.take_place();
  if (place_ == nullptr) return false;
  ++psns_;
  return true;
}

void ParkedRequests::end() {
  assert(psns_ > 0);
  --psns_;
}

bool ParkedRequests::hold(const RxPacket& packet, std::uint32_t mtu) {
  assert(psns_ > 0 && is_consistent());
  if (place_->hold(packet, psns_) != HeldPackets::Result::held) {
    dropped_ = true;
    return false;
  }
  psns_ += psns_of(packet.headers, mtu);
  return true;
}

void ParkedRequests::drop() {
  psns_ = 0;
  if (place_ != nullptr) service_.give_back(std::exchange(place_, nullptr));
}

}  // namespace rockhopper::roce::rc
