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
  must(qp.bring_up(a, roce::QpState::rts));
}

}  // namespace rockhopper::bench
