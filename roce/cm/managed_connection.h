// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/cm/connection.h"
#include "roce/cm/listeners.h"
#include "roce/cm/pending_answer.h"

namespace rockhopper::roce::cm {

struct ManagedConnection;

/// Who is told that a connection's timer has expired.
class ConnectionTimers {
 public:
  virtual void on_timer(ManagedConnection& connection) = 0;

 protected:
  ~ConnectionTimers() = default;
};

/// A connection as the manager's parts see it.
struct ManagedConnection final : Connection {
  ManagedConnection(ConnectionTimers& owner, std::uint32_t local_id, bool active)
      : Connection(local_id, active), timers(owner), pending(on_timer, this) {}

  using Connection::active_;
  using Connection::agreed_;
  using Connection::local_id_;
  using Connection::local_qpn_;
  using Connection::path_;
  using Connection::path_mtu_;
  using Connection::peer_;
  using Connection::qp_type_;
  using Connection::remote_qpn_;
  using Connection::service_id_;
  using Connection::state_;

  ConnectionTimers& timers;
  bool is_released = false;  ///< the application wants nothing more of it
  /// The application moves its queue pair itself.
  bool has_external_qp = false;
  // What the peer is told of its queue pair.
  bool has_srq = false;
  bool has_flow_control = false;
  Listeners::Place place{};
  std::uint64_t transaction_id = 0;
  std::uint32_t remote_id = 0;
  wire::Psn receive_psn{};  ///< what the peer is told to begin with
  wire::Psn send_psn{};     ///< what it told us
  QpParameters qp;
  /// Active: ours; passive: the listener's, if the peer has made an offer.
  Capabilities offer = kNoCapabilities;
  // Passive: what the peer's REQ asks for.
  std::uint64_t reply_timeout_ns = 0;  ///< for which the reply waits for its answer
  std::uint8_t reply_retries = 0;
  std::uint64_t peer_patience_ns = 0;  ///< for so long the peer goes on with its REQ

  /// What is to be repeated; when closed, what a repeated REQ is answered with.
  PendingAnswer pending;

 private:
  static void on_timer(void* self, std::uint64_t /*now_ns*/) {
    auto& connection = *static_cast<ManagedConnection*>(self);
    connection.timers.on_timer(connection);
  }
};

/// Applications have connections that a manager has made.
[[nodiscard]] inline ManagedConnection& managed(Connection& connection) {
  return static_cast<ManagedConnection&>(connection);
}

}  // namespace rockhopper::roce::cm
