// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/extension_qp.h"
#include "roce/rc/responder.h"
#include "roce/responder.h"

namespace rockhopper::dc {

struct EndpointContext;
struct Session;

/// The responder of a session: that of a reliable connection, and what a session is told beyond
/// its answers.
class Responder final : public roce::Responder {
 public:
  Responder(roce::ExtensionQp& qp, EndpointContext& endpoint)
      : qp_(qp), inner_(qp), endpoint_(endpoint) {}

  void reset(wire::Psn first_psn) override;
  void stop() override { inner_.stop(); }
  void set_resources(std::uint8_t count) override { inner_.set_resources(count); }
  void on_request(const roce::RxPacket& packet) override { inner_.on_request(packet); }
  [[nodiscard]] bool has_replies() const override {
    return owes_accept_ || owes_keepalive_ || inner_.has_replies();
  }
  [[nodiscard]] bool has_responses() const override { return inner_.has_responses(); }
  [[nodiscard]] bool may_wait() const override {
    return !owes_accept_ && !owes_keepalive_ && inner_.may_wait();
  }
  void defer() override { inner_.defer(); }
  /// The ACCEPT leaves before all answers.
  [[nodiscard]] roce::TransmitResult transmit(rte_mbuf** packets, std::uint16_t count) override;
  void on_unreachable() override;
  [[nodiscard]] wire::Psn expected_psn() const override { return inner_.expected_psn(); }

  /// Returns whether nothing is half done: a peer that is told the expected PSN knows all.
  [[nodiscard]] bool quiet() const { return !has_replies() && !inner_.in_message(); }

  /// Whose session it is, while it is open; null: nobody's.
  void serve(Session* session) { session_ = session; }
  void owe_accept();
  void owe_keepalive();

 private:
  [[nodiscard]] rte_mbuf* build_owed();

  roce::ExtensionQp& qp_;
  roce::rc::Responder inner_;
  EndpointContext& endpoint_;
  Session* session_ = nullptr;
  bool owes_accept_ = false;
  bool owes_keepalive_ = false;
};

}  // namespace rockhopper::dc
