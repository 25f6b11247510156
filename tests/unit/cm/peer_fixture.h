// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <vector>

#include "tests/unit/cm/cm_fixture.h"

namespace rockhopper::roce::cm {

inline constexpr std::uint32_t kPeerId = 0x11223344;
inline constexpr wire::Qpn kPeerQpn{0x002222};

/// The connection manager of node 0 against messages made by hand, which come from node 1.
class PeerTest : public CmTest {
 protected:
  using Received = sim::MadPeer::Received;

  void start_peer(sim::CmNetworkConfig config = {}) {
    config.bare_peer = true;
    start(config);
    sim::must(manager(0).listen(kService));
    net().settle();
  }

  [[nodiscard]] wire::cm::Req peer_req(std::uint32_t id = kPeerId, wire::Qpn qpn = kPeerQpn) {
    const AddressVector path = net().path(1);
    return {.local_communication_id = id,
            .service_id = kService,
            .local_ca_guid = 0x1111,
            .local_qpn = qpn,
            .responder_resources = 4,
            .initiator_depth = 4,
            .remote_cm_response_timeout = 18,
            .starting_psn = wire::Psn::make(0x700 + id),
            .local_cm_response_timeout = 18,
            .retry_count = 7,
            .pkey = 0xffff,
            .path_mtu_code = 3,
            .rnr_retry_count = 7,
            .max_cm_retries = 15,
            .primary_local_gid = path.source.bytes,
            .primary_remote_gid = path.destination.bytes,
            .primary_hop_limit = 64,
            .primary_local_ack_timeout = 14};
  }
  [[nodiscard]] wire::cm::Rep peer_rep(std::uint32_t to) const {
    return {.local_communication_id = kPeerId,
            .remote_communication_id = to,
            .local_qpn = kPeerQpn,
            .starting_psn = wire::Psn::make(0x900),
            .responder_resources = 4,
            .initiator_depth = 4,
            .target_ack_delay = 10,
            .rnr_retry_count = 7};
  }

  /// Sends it, lets it arrive, and returns what was answered at once.
  template <typename Message>
  std::vector<Received> exchange(const Message& message) {
    return exchange_mad(sim::MadPeer::make(message));
  }
  std::vector<Received> exchange_mad(const sim::MadPeer::Mad& mad) {
    return exchange_mad(net().path(1), mad);
  }
  std::vector<Received> exchange_mad(const AddressVector& path, const sim::MadPeer::Mad& mad) {
    (void)net().peer().take();
    net().peer().send(path, mad);
    net().run_for(10'000);
    return net().peer().take();
  }

  /// A connection of node 0 that has sent its REQ.
  Connection* open() {
    qp_ = &net().make_qp(0);
    Connection* connection = connect(*qp_);
    net().run_for(10'000);
    return connection;
  }
  /// The same of a queue pair that the manager does not move.
  Connection* open_external() {
    Connection* connection = connect_external({.number = net().make_qp(0).number()});
    net().run_for(10'000);
    return connection;
  }
  /// A connection of node 0 that has been asked for.
  Connection* asked(std::uint32_t id = kPeerId, wire::Qpn qpn = kPeerQpn) {
    exchange(peer_req(id, qpn));
    return await(0, EventType::connect_request).connection;
  }
  void accept(Connection& connection) {
    qp_ = &net().make_qp(0);
    sim::must(manager(0).accept(connection, *qp_, {}));
    net().run_for(10'000);
  }

  QueuePair* qp_ = nullptr;
};

}  // namespace rockhopper::roce::cm
