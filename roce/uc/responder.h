// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/counters.h"
#include "roce/message_progress.h"
#include "roce/responder.h"
#include "roce/transport_context.h"
#include "roce/wire/shared_psn.h"

namespace rockhopper::roce::uc {

/// The responder of an unreliable connection (IBTA vol. 1, 9.8.2.2). Executes messages whose
/// packets follow each other without a gap. Whatever is wrong with a message, the rest of it is
/// dropped in silence, its receive request serves the next one, and the queue pair lives on; only
/// what is wrong with a receive request itself ends in ERR.
///
/// A packet that begins a message is taken with any PSN. So a message of one packet that the
/// network repeats arrives twice, and two that overtake each other arrive in their new order.
class Responder final : public roce::Responder {
 public:
  explicit Responder(const TransportContext& qp) : qp_(qp) {}

  void reset(wire::Psn first_psn) override;
  void on_request(const RxPacket& packet) override;
  [[nodiscard]] wire::Psn expected_psn() const override { return expected_psn_; }
  [[nodiscard]] wire::Psn told_psn() const override { return expected_psn_; }

 private:
  [[nodiscard]] bool admit(const RxPacket& packet);
  void abandon();
  void execute_send(const RxPacket& packet);
  void execute_write(const RxPacket& packet);
  [[nodiscard]] bool begin_write(const RxPacket& packet);
  void fail_receive(WcStatus status, DropReason reason, const RxPacket& packet);
  void finish_packet(const RxPacket& packet);
  void drop(DropReason reason, const RxPacket& packet);

  TransportContext qp_;
  wire::SharedPsn expected_psn_;
  MessageProgress message_;
};

}  // namespace rockhopper::roce::uc
