// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "roce/counters.h"
#include "roce/responder.h"
#include "roce/transport_context.h"

namespace rockhopper::roce::ud {

/// The responder of unreliable datagrams (IBTA vol. 1, 9.8.3.2): each packet is a message, from any
/// sender that knows the Q_Key. What does not fit is dropped in silence.
class Responder final : public roce::Responder {
 public:
  explicit Responder(const TransportContext& qp) : qp_(qp) {}

  void reset(wire::Psn /*first_psn*/) override {}
  void on_request(const RxPacket& packet) override;
  [[nodiscard]] wire::Psn expected_psn() const override { return {}; }

 private:
  /// Why the packet is not for the front receive request, if so.
  [[nodiscard]] std::optional<DropReason> check(const RxPacket& packet) const;
  [[nodiscard]] MemoryStatus deliver(const RxPacket& packet);

  TransportContext qp_;
};

}  // namespace rockhopper::roce::ud
