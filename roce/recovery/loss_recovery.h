// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "roce/recovery/held_packets.h"
#include "roce/recovery/retransmission_timeout.h"
#include "roce/wire/psn.h"
#include "roce/wire/saeth.h"
#include "stack/error.h"

namespace rockhopper::roce {

enum class RecoveryAlgorithm : std::uint8_t { go_back_n, selective_repeat };
[[nodiscard]] std::string_view to_string(RecoveryAlgorithm algorithm);

struct SelectiveRepeatParameters {
  /// Request packets that may be unacknowledged, 1 to HeldPackets::kWindow; the engine's
  /// max_unacked_packets is another limit.
  std::uint32_t window = HeldPackets::kWindow;
  /// A packet is lost once one has arrived that was sent so many packets later, 1 to 255. Packets
  /// that overtake each other by less cause nothing to be sent again.
  std::uint32_t reordering = 3;
};

struct RecoveryConfig {
  RecoveryAlgorithm algorithm = RecoveryAlgorithm::go_back_n;
  bool adaptive_timeout = false;  ///< else the timer is always QpAttributes::timeout
  SelectiveRepeatParameters selective_repeat{};
  AdaptiveTimeoutParameters timeout{};
};

[[nodiscard]] Expected<void> check_recovery_config(const RecoveryConfig& config);

/// Which packets one queue pair sends again, and what it does with those that come too early: one
/// implementation for each algorithm, both halves of a queue pair in one object, as both ends use
/// the same. Beside it, when its timer expires. It is told what happens and asked; it sends
/// nothing. A queue pair of plain go-back-N with the fixed timer has none of these.
///
/// Going back, the requester passes over what it has sent since the oldest unacknowledged packet,
/// and sends again what does not `pass`.
class LossRecovery {
 public:
  /// Why the requester goes back.
  enum class Reason : std::uint8_t {
    everything,  ///< a NAK, an RNR NAK or the timer: all that is not known to have arrived
    response,    ///< the response to the oldest request is lost: that request
    lost,        ///< what on_selective_ack() has found
  };

  explicit LossRecovery(const RecoveryConfig& config);
  LossRecovery(const LossRecovery&) = delete;
  LossRecovery& operator=(const LossRecovery&) = delete;
  virtual ~LossRecovery();

  [[nodiscard]] const RecoveryConfig& config() const { return config_; }
  /// Returns null with the fixed timer.
  [[nodiscard]] RetransmissionTimeout* timeout() { return timeout_.get(); }

  /// As new: the queue pair begins with other PSNs.
  virtual void reset();

  // The requester's half.

  /// The request packet that begins at `psn` leaves, for the first time or `again`.
  virtual void on_sent(wire::Psn /*psn*/, bool /*again*/) {}
  /// The peer has received every request before `psn`, and does not hold the one at `psn`.
  virtual void on_received_before(wire::Psn /*psn*/) {}
  /// The peer holds what `held` says behind the missing packet `psn`. Returns true if packets are
  /// lost: it is time to go back.
  [[nodiscard]] virtual bool on_selective_ack(wire::Psn /*psn*/, const wire::Saeth& /*held*/) {
    return false;
  }
  /// Something has arrived that implies that the response at `psn`, the next one, is lost or late.
  /// Returns true if it counts as lost.
  [[nodiscard]] virtual bool on_response_skipped(wire::Psn /*psn*/) { return true; }
  /// `unacked` is where it begins.
  virtual void on_going_back(Reason /*reason*/, wire::Psn /*unacked*/) {}
  /// It was sent before, and need not be sent again now.
  [[nodiscard]] virtual bool passes(wire::Psn /*psn*/) const { return false; }
  /// What is being gone over again is everything.
  [[nodiscard]] virtual bool repeats_everything() const { return true; }

  // Packets that have come too early; null: they are dropped.

  [[nodiscard]] virtual HeldPackets* requests() { return nullptr; }
  [[nodiscard]] virtual HeldPackets* responses() { return nullptr; }

 private:
  RecoveryConfig config_;
  std::unique_ptr<RetransmissionTimeout> timeout_;
};

/// Returns null where none is needed: for go-back-N with the fixed timer.
[[nodiscard]] std::unique_ptr<LossRecovery> make_loss_recovery(const RecoveryConfig& config,
                                                               HeldPacketBudget& budget);

}  // namespace rockhopper::roce
