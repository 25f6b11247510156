// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "roce/recovery/held_packets.h"
#include "roce/recovery/recovery_config.h"
#include "roce/wire/psn.h"
#include "roce/wire/saeth.h"

namespace rockhopper::roce {

/// Selective repeat, between two Rockhoppers (docs/loss-recovery.md): what comes too early is held
/// and delivered in order once the gap is closed, and the responder tells what it holds. The
/// requester numbers its transmissions; a packet is lost when one that was sent `reordering`
/// transmissions later has arrived, first transmissions or repeated ones alike. Only that is sent
/// again.
///
/// Both halves of a queue pair are in one object, as both ends do the same. It is told what happens
/// and asked; it sends nothing. A queue pair without one goes back to the oldest unacknowledged
/// packet and drops what comes too early: go-back-N. With it, the requester goes back too, but
/// passes over what it has sent since, and sends again what does not `pass`.
class SelectiveRepeat {
 public:
  /// Why the requester goes back.
  enum class Reason : std::uint8_t {
    everything,  ///< a NAK, an RNR NAK or the timer: all that is not known to have arrived
    response,    ///< the response to the oldest request is lost: that request
    lost,        ///< what on_selective_ack() has found
  };

  /// `budget` outlives it.
  SelectiveRepeat(const SelectiveRepeatParameters& parameters, HeldPacketBudget& budget);

  [[nodiscard]] const SelectiveRepeatParameters& parameters() const { return parameters_; }

  /// Makes it as new: the queue pair begins with other PSNs.
  void reset();

  // The requester's half.

  /// The request packet that begins at `psn` leaves, for the first time or `again`.
  void on_sent(wire::Psn psn, bool again);
  /// The peer has received every request before `psn`, and does not hold the one at `psn`.
  void on_received_before(wire::Psn psn);
  /// The peer holds what `held` says behind the missing packet `psn`. Returns true if packets are
  /// lost: it is time to go back.
  [[nodiscard]] bool on_selective_ack(wire::Psn psn, const wire::Saeth& held);
  /// Something has arrived that implies that the response at `psn`, the next one, is lost or late.
  /// Returns true if it counts as lost.
  [[nodiscard]] bool on_response_skipped(wire::Psn psn);
  /// `unacked` is where it begins.
  void on_going_back(Reason reason, wire::Psn unacked);
  /// The packet was sent before, and need not be sent again now.
  [[nodiscard]] bool passes(wire::Psn psn) const;
  /// What is being gone over again is everything.
  [[nodiscard]] bool repeats_everything() const { return everything_; }

  // Packets that have come too early.

  [[nodiscard]] HeldPackets& requests() { return requests_; }
  [[nodiscard]] HeldPackets& responses() { return responses_; }

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

  SelectiveRepeatParameters parameters_;
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
