// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "roce/recovery/loss_recovery.h"

namespace rockhopper::roce {

/// Selective repeat, between two Rockhoppers (docs/loss-recovery.md): what comes too early is held
/// and delivered in order once the gap is closed, and the responder tells what it holds. The
/// requester numbers its transmissions; a packet is lost when one that was sent `reordering`
/// transmissions later has arrived, first transmissions or repeated ones alike. Only that is sent
/// again.
class SelectiveRepeat final : public LossRecovery {
 public:
  SelectiveRepeat(const RecoveryConfig& config, HeldPacketBudget& budget);

  void reset() override;
  void on_sent(wire::Psn psn, bool again) override;
  void on_received_before(wire::Psn psn) override;
  [[nodiscard]] bool on_selective_ack(wire::Psn psn, const wire::Saeth& held) override;
  [[nodiscard]] bool on_response_skipped(wire::Psn psn) override;
  void on_going_back(Reason reason, wire::Psn unacked) override;
  [[nodiscard]] bool passes(wire::Psn psn) const override;
  [[nodiscard]] bool repeats_everything() const override { return everything_; }
  [[nodiscard]] HeldPackets* requests() override { return &requests_; }
  [[nodiscard]] HeldPackets* responses() override { return &responses_; }

 private:
  /// A transmission; of a PSN the last one.
  struct Sent {
    wire::Psn psn;
    std::uint32_t order = 0;  ///< counts transmissions, modulo 2^32
    bool again = false;
    bool valid = false;
  };
  /// Twice the window: READs take PSNs between requests that are in it.
  static constexpr std::uint32_t kSent = 2 * HeldPackets::kWindow;

  [[nodiscard]] const Sent* find(wire::Psn psn) const;
  [[nodiscard]] bool is_held(wire::Psn psn) const;
  [[nodiscard]] bool is_lost(wire::Psn psn) const;
  void note_arrival(wire::Psn psn);

  HeldPackets requests_;
  HeldPackets responses_;
  std::array<Sent, kSent> sent_{};  ///< by PSN modulo kSent
  std::uint32_t order_ = 0;         ///< of the last transmission
  std::uint32_t newest_ = 0;        ///< order of the latest transmission that has arrived
  bool started_ = false;            ///< base_ is one
  wire::Psn base_;                  ///< all requests before it have arrived
  wire::Saeth held_{};              ///< what the peer holds behind base_
  bool everything_ = true;
  std::optional<wire::Psn> request_;  ///< to be sent again because its response is lost
  wire::Psn skipped_;                 ///< the response that has been skipped
  std::uint32_t skips_ = 0;           ///< so often
};

}  // namespace rockhopper::roce
