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
  void on_rep(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::Rep& rep);
  /// The peer's application takes its time: wait for it that much longer (IBTA vol. 1, 12.6.6).
  void on_mra(const ReceivedMad& mad, const wire::cm::Mra& mra);

 private:
  void send_req(ManagedConnection& connection, std::span<const std::uint8_t> private_data);
  /// Returns why the reply is of no use, if so.
  [[nodiscard]] std::optional<wire::cm::RejectReason> take_reply(ManagedConnection& connection,
                                                                 const wire::cm::Rep& rep);
  void send_rtu(const ManagedConnection& connection);

  ManagerParts& parts_;
  Connections& connections_;
};

}  // namespace rockhopper::roce::cm
