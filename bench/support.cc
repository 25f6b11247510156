// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "bench/support.h"

namespace rockhopper::bench {

void connect(roce::QueuePair& qp, const ConnectionConfig& config, const stack::IpAddress& own,
             const stack::IpAddress& peer, wire::Qpn peer_qpn) {
  roce::QpAttributes a;
  a.qp_access_flags = roce::kAccessAll;
  a.path_mtu = config.path_mtu;
  a.dest_qp_num = peer_qpn;
  a.max_rd_atomic = config.max_rd_atomic;
  a.max_dest_rd_atomic = config.max_rd_atomic;
  a.ah_attr.source = own;
  a.ah_attr.destination = peer;
  a.qp_state = roce::QpState::init;
  must(qp.modify(a, roce::kQpState | roce::kQpPkeyIndex | roce::kQpPort | roce::kQpAccessFlags));
  a.qp_state = roce::QpState::rtr;
  must(qp.modify(a, roce::kQpState | roce::kQpAv | roce::kQpPathMtu | roce::kQpDestQpn |
                        roce::kQpRqPsn | roce::kQpMaxDestRdAtomic | roce::kQpMinRnrTimer));
  a.qp_state = roce::QpState::rts;
  must(qp.modify(a, roce::kQpState | roce::kQpSqPsn | roce::kQpTimeout | roce::kQpRetryCnt |
                        roce::kQpRnrRetry | roce::kQpMaxQpRdAtomic));
}

}  // namespace rockhopper::bench
