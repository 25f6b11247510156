// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/mad_peer.h"

#include <algorithm>
#include <utility>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

MadPeer::MadPeer(roce::Engine& engine) : gsi_(must(roce::Gsi::create(engine))) {}

void MadPeer::poll(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  gsi_->poll(now_ns, [this](const roce::ReceivedMad& mad) {
    Received received{.header = wire::MadHeader::parse(mad.bytes.first<wire::MadHeader::kSize>()),
                      .bytes = {}};
    std::copy(mad.bytes.begin(), mad.bytes.end(), received.bytes.begin());
    received_.push_back(received);
  });
}

void MadPeer::send(const roce::AddressVector& to, const Mad& mad) {
  if (!gsi_->send({to}, mad, now_ns_)) die("the peer's datagram was not sent");
}

std::vector<MadPeer::Received> MadPeer::take() { return std::exchange(received_, {}); }

}  // namespace rockhopper::sim
