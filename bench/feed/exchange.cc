// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "bench/feed/exchange.h"

#include <stdexcept>

#include "apps/services/publisher/subscriber.h"
#include "bench/support.h"

namespace rockhopper::bench {

FeedQueuePair make_queue_pair(roce::Engine& engine, const roce::QpInit& init) {
  return {.qp = must(engine.create_qp(init)), .psn = engine.random_psn()};
}

void bring_up(const FeedQueuePair& own, const stack::IpAddress& address, const FeedEnd& peer,
              const FeedEnd::Connection& connection, std::uint16_t path_mtu) {
  const auto destination = stack::IpAddress::parse(peer.gid);
  if (!destination) throw std::runtime_error("the peer has no address: " + peer.gid);
  roce::QpAttributes attributes;
  attributes.qp_access_flags = roce::kAccessRemoteRead;
  attributes.path_mtu = static_cast<roce::PathMtu>(path_mtu);
  attributes.dest_qp_num = wire::Qpn::make(connection.qpn);
  attributes.rq_psn = wire::Psn::make(connection.psn);
  attributes.sq_psn = own.psn;
  attributes.max_rd_atomic = publisher::Subscriber::kReads;
  attributes.max_dest_rd_atomic = publisher::Subscriber::kReads;
  attributes.ah_attr.source = address;
  attributes.ah_attr.destination = *destination;
  // A peer on the same processor, or one that is stopped, is not a lost packet.
  attributes.timeout = 20;
  attributes.retry_cnt = attributes.rnr_retry = 7;
  must(own.qp->bring_up(attributes, roce::QpState::rts));
}

}  // namespace rockhopper::bench
