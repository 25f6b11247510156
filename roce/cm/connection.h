// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "roce/cm/capabilities.h"
#include "roce/gsi.h"
#include "roce/types.h"
#include "roce/wire/cm.h"
#include "roce/wire/mad.h"
#include "roce/wire/qpn.h"

namespace rockhopper::roce::cm {

/// A message as it is sent.
using Mad = std::array<std::uint8_t, wire::kMadBytes>;

/// States of a connection (IBTA vol. 1, 12.9.5). A MRA changes none: it gives the other more time.
enum class State : std::uint8_t {
  req_sent,
  req_rcvd,
  rep_sent,
  rep_rcvd,  ///< the application still has to move its queue pair, and then to confirm()
  established,
  dreq_sent,
  timewait,
  closed,  ///< over; waits for the application's release()
};
[[nodiscard]] std::string_view to_string(State state);

/// What an end wants of its queue pair. Ranges as in QpAttributes.
struct QpParameters {
  std::uint32_t access_flags = 0;
  std::uint8_t responder_resources = 16;  ///< READs and atomics of the peer served at once
  std::uint8_t initiator_depth = 16;      ///< own READs and atomics outstanding
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;
  /// Local ACK timeout code; connect() also tells it the peer for its own. 0 in accept(): as the
  /// peer says.
  std::uint8_t ack_timeout = 14;
};

/// A queue pair that the application moves through its states itself, with the attributes that the
/// manager says. It may be of another engine.
struct ExternalQp {
  QpType type = QpType::rc;  ///< or uc; xrc_send to connect(), xrc_recv to accept()
  wire::Qpn number{};
  bool has_srq = false;
  /// Its ACKs tell for how many messages it has receives (end-to-end credits, IBTA vol. 1,
  /// 9.7.7.2).
  bool has_flow_control = true;
};

/// What the peer says of its queue pair in its REQ or REP.
struct PeerParameters {
  std::uint8_t responder_resources = 0;  ///< READs and atomics that it serves at once
  std::uint8_t initiator_depth = 0;      ///< READs and atomics that it wants outstanding
  std::uint8_t retry_cnt = 0;            ///< of a REQ: what it asks for; a REP says nothing
  std::uint8_t rnr_retry = 0;            ///< the same, of a REP too
  bool has_flow_control = false;
  bool has_srq = false;
};

struct ConnectParameters {
  AddressVector path;
  std::uint16_t pkey_index = 0;  ///< the partition: of the port's P_Key table
  std::uint64_t service_id = 0;
  std::uint32_t path_mtu = 0;                  ///< bytes; 0: the port's largest
  std::span<const std::uint8_t> private_data;  ///< up to 92 bytes, 84 with `offer`
  QpParameters qp;
  /// What this end offers to use, if the peer is a Rockhopper whose listener offers it too. A
  /// queue pair that was told to repeat selectively goes back to go-back-N unless that is agreed.
  Capabilities offer = kNoCapabilities;
};

/// A connection on its way from REQ to TIMEWAIT. Owned by the ConnectionManager until release();
/// belongs to its thread.
class Connection {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool is_active() const { return active_; }  ///< made by connect()
  [[nodiscard]] const AddressVector& path() const { return path_; }
  /// Returns the index of the P_Key that the peers agree on. accept() gives it to the queue pair.
  [[nodiscard]] std::uint16_t pkey_index() const { return path_.pkey_index; }
  [[nodiscard]] std::uint64_t service_id() const { return service_id_; }
  [[nodiscard]] std::uint32_t local_communication_id() const { return local_id_; }
  [[nodiscard]] wire::Qpn local_qpn() const { return local_qpn_; }
  [[nodiscard]] wire::Qpn remote_qpn() const { return remote_qpn_; }
  [[nodiscard]] PathMtu path_mtu() const { return path_mtu_; }
  /// What the peer has said of its queue pair. Known from the events connect_request,
  /// connect_response and established on.
  [[nodiscard]] const PeerParameters& peer() const { return peer_; }
  /// What both ends have offered. Known from the events connect_request and established on.
  [[nodiscard]] Capabilities agreed() const { return agreed_; }
  /// Returns the type of this end's queue pair: rc, uc, xrc_send of an active end, xrc_recv of a
  /// passive one.
  [[nodiscard]] QpType qp_type() const { return qp_type_; }

  /// The application's; the manager does not look at it.
  std::uint64_t context = 0;

 protected:
  Connection(std::uint32_t local_id, bool active) : local_id_(local_id), active_(active) {}
  ~Connection() = default;

  const std::uint32_t local_id_;
  const bool active_;
  State state_ = State::req_sent;
  QpType qp_type_ = QpType::rc;
  PathMtu path_mtu_ = PathMtu::mtu_1024;
  MadPath path_;
  std::uint64_t service_id_ = 0;
  wire::Qpn local_qpn_{};
  wire::Qpn remote_qpn_{};
  PeerParameters peer_;
  Capabilities agreed_ = kNoCapabilities;
};

}  // namespace rockhopper::roce::cm
