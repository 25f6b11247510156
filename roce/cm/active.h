// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "roce/cm/connections.h"

namespace rockhopper::roce::cm {

/// The active side of a connection: REQ out, REP in, RTU out (IBTA vol. 1, 12.9.6).
class ActiveSide {
 public:
  /// Both must outlive it.
  ActiveSide(ManagerParts& parts, Connections& connections)
      : parts_(parts), connections_(connections) {}

  /// As ConnectionManager::connect().
  [[nodiscard]] Expected<Connection*> connect(QueuePair& qp, const ConnectParameters& parameters);
  [[nodiscard]] Expected<Connection*> connect(const ExternalQp& qp,
                                              const ConnectParameters& parameters);
  [[nodiscard]] Expected<void> confirm(ManagedConnection& connection);
  /// As ConnectionManager's, of a reply that waits to be confirmed.
  [[nodiscard]] Expected<void> reject(ManagedConnection& connection,
                                      std::span<const std::uint8_t> private_data,
                                      wire::cm::RejectReason reason);
  void on_rep(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::Rep& rep);
  /// The peer's application takes its time: wait for it that much longer (IBTA vol. 1, 12.6.6).
  void on_mra(const ReceivedMad& mad, const wire::cm::Mra& mra);

 private:
  [[nodiscard]] std::uint32_t mtu_of(const ConnectParameters& parameters) const;
  [[nodiscard]] Expected<void> check(const ConnectParameters& parameters) const;
  /// `moves`: the manager moves the queue pair.
  [[nodiscard]] Expected<Connection*> start(const ExternalQp& qp, bool moves,
                                            const ConnectParameters& parameters);
  void send_req(ManagedConnection& connection, std::span<const std::uint8_t> private_data);
  /// Returns why the reply is of no use, if so.
  [[nodiscard]] std::optional<wire::cm::RejectReason> take_reply(ManagedConnection& connection,
                                                                 const wire::cm::Rep& rep);
  /// Moves the queue pair, if that is this manager's task. Returns why that cannot be, if so.
  [[nodiscard]] std::optional<wire::cm::RejectReason> move(ManagedConnection& connection);
  void on_repeated_rep(const ManagedConnection& connection);
  void send_rtu(const ManagedConnection& connection);

  ManagerParts& parts_;
  Connections& connections_;
};

}  // namespace rockhopper::roce::cm
