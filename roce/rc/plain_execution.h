// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "roce/plain_packet.h"
#include "roce/rc/responder.h"

namespace rockhopper::roce::rc {

/// Executes the next request where it is a PlainPacket and nothing is out of the ordinary, as
/// Execution would. What each step could refuse is looked at before anything changes.
class Responder::PlainExecution {
 public:
  PlainExecution(Responder& responder, const PlainPacket& packet)
      : responder_(responder), qp_(responder.qp_), packet_(packet) {}

  /// Returns false if it has done nothing.
  [[nodiscard]] bool run();

 private:
  [[nodiscard]] bool send();
  [[nodiscard]] bool write();
  [[nodiscard]] bool read();
  [[nodiscard]] bool atomic();
  /// Finds memory that the RETH names and that the peer may use by `right`; null if it may not.
  [[nodiscard]] std::byte* find_memory(const wire::Reth& reth, std::uint32_t right) const;
  [[nodiscard]] wire::Reth reth() const;
  void finish();

  Responder& responder_;
  TransportContext qp_;
  const PlainPacket& packet_;
};

}  // namespace rockhopper::roce::rc
