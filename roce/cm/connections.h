// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/cm/manager_parts.h"

namespace rockhopper::roce::cm {

/// What the connections of both roles share: their queue pairs' states, their timer, and how they
/// are over.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): nobody destroys it as its base.
class Connections final : private ConnectionTimers {
 public:
  /// `parts` must outlive it.
  explicit Connections(ManagerParts& parts) : parts_(parts) {}
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Requires that there is room for another one.
  [[nodiscard]] ManagedConnection& make(bool active);
  /// Returns the connection that a message names, if it is not over and comes from the right place;
  /// null if there is none, which has been counted.
  [[nodiscard]] ManagedConnection* find(const ReceivedMad& mad, std::uint32_t local_id,
                                        std::uint32_t remote_id);

  // Their queue pairs.
  [[nodiscard]] Expected<void> to_init(QueuePair& qp, const QpParameters& parameters,
                                       std::uint16_t pkey_index) const;
  /// What the peer is to be told of this engine's own queue pair.
  [[nodiscard]] static ExternalQp describe(const QueuePair& qp);
  /// Whether it can be connected.
  [[nodiscard]] static Expected<void> check_external(const ExternalQp& qp, QpType xrc_end);
  /// What the queue pair is to have on its way to RTS. Requires that the peer's is known.
  [[nodiscard]] static QpAttributes attributes(const ManagedConnection& connection);
  [[nodiscard]] static Expected<void> to_rts(QueuePair& qp, const ManagedConnection& connection);
  /// Returns null if it is destroyed, is external, or if another connection has it.
  [[nodiscard]] QueuePair* own_qp(const ManagedConnection& connection) const;
  void fail_qp(const ManagedConnection& connection) const;

  /// `request` has been sent, and is repeated until it is answered.
  void await_answer(ManagedConnection& connection, const Mad& request);
  /// As ConnectionManager::disconnect().
  [[nodiscard]] Expected<void> disconnect(ManagedConnection& connection);
  /// The peer's queue pair is connected anew, so for the peer this connection is over (IBTA vol. 1,
  /// 12.4.1).
  void end_stale(ManagedConnection& connection);
  /// Both may still get packets of each other for some time.
  void enter_timewait(ManagedConnection& connection, EventType event);
  /// It is over. `last_word`: what a repeated REQ is answered with.
  void close(ManagedConnection& connection, const Mad& last_word = {});
  /// The application is done with one that is closed.
  void forget(const ManagedConnection& connection) { parts_.table.erase(connection); }

 private:
  void on_timer(ManagedConnection& connection) override;
  void on_no_answer(ManagedConnection& connection);

  ManagerParts& parts_;
};

}  // namespace rockhopper::roce::cm
