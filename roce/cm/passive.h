// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "roce/cm/connections.h"

namespace rockhopper::roce::cm {

/// The passive side of a connection: REQ in, REP out, RTU in (IBTA vol. 1, 12.9.7).
class PassiveSide {
 public:
  /// Both must outlive it.
  PassiveSide(ManagerParts& parts, Connections& connections)
      : parts_(parts), connections_(connections) {}

  /// As ConnectionManager's.
  [[nodiscard]] Expected<void> accept(ManagedConnection& connection, QueuePair& qp,
                                      const QpParameters& parameters,
                                      std::span<const std::uint8_t> private_data);
  [[nodiscard]] Expected<void> accept(ManagedConnection& connection, const ExternalQp& qp,
                                      const QpParameters& parameters,
                                      std::span<const std::uint8_t> private_data);
  [[nodiscard]] Expected<void> establish(ManagedConnection& connection);
  [[nodiscard]] Expected<void> reject(ManagedConnection& connection,
                                      std::span<const std::uint8_t> private_data,
                                      wire::cm::RejectReason reason);
  void on_req(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::Req& req);
  void on_rtu(const ReceivedMad& mad, const wire::cm::Rtu& rtu);

 private:
  /// Why a new request cannot become a connection.
  struct Refusal {
    using Counter = stack::Counter Counters::*;
    wire::cm::RejectReason reason{};
    Counter counter = nullptr;  ///< what counts it besides, if anything
  };
  [[nodiscard]] MadPath path_of(const ReceivedMad& mad, const wire::cm::Req& req) const;
  [[nodiscard]] std::optional<Refusal> refusal(const ReceivedMad& mad,
                                               const wire::cm::Req& req) const;
  void make(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::Req& req);
  void on_duplicate_req(ManagedConnection& connection);
  [[nodiscard]] static Expected<void> check_answer(const ManagedConnection& connection, QpType type,
                                                   std::span<const std::uint8_t> private_data);
  static void set_parameters(ManagedConnection& connection, const QpParameters& parameters);
  void become_established(ManagedConnection& connection, const PrivateData& private_data);
  void send_rep(ManagedConnection& connection, std::uint8_t rnr_retry,
                std::span<const std::uint8_t> private_data);

  ManagerParts& parts_;
  Connections& connections_;
};

}  // namespace rockhopper::roce::cm
