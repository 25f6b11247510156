// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/signs_of_life.h"

#include <algorithm>

#include "apps/services/ami/completion_id.h"

namespace rockhopper::ami {

bool SignsOfLife::is_needed() const {
  return !watched_.empty() ||
         std::any_of(parts_.ports.begin(), parts_.ports.end(),
                     [](const auto& port) { return port->lane.watches.any(); });
}

void SignsOfLife::watch(Peer& peer) {
  if (peer.watched_hook.is_linked()) return;
  on_heard(peer);
  if (!is_needed()) next_ns_ = parts_.now_ns + parts_.config.probe_ns;
  watched_.push_back(peer);
}

bool SignsOfLife::ask(Peer& peer) {
  if (peer.probed || parts_.now_ns - peer.heard_ns < parts_.config.probe_ns) return true;
  // Nothing is written, and nobody is asked for it but the peer's transport.
  const Posted posted =
      peer.route->post({.wr_id = CompletionId::of(CompletionId::probe, peer.index),
                        .opcode = roce::WrOpcode::rdma_write,
                        .send_flags = roce::kSendSignaled});
  if (posted == Posted::yes) {
    peer.probed = true;
    parts_.counters.tx_probes.add();
  }
  return posted != Posted::broken;
}

}  // namespace rockhopper::ami
