// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "roce/wire/aeth.h"
#include "roce/wire/psn.h"

namespace rockhopper::roce::rc {

/// What a responder owes its peer beside responses: at most one ACK or NAK, as each covers all
/// requests before its PSN (IBTA vol. 1, 9.7.5.1 and 9.7.5.2). It also remembers what the peer has
/// been told, so that a NAK is given once for each missing packet, and an ACK where it is news.
class OwedReplies {
 public:
  enum class Reply : std::uint8_t {
    none,
    ack,           ///< of what has been executed since; may wait, and may turn out to be needless
    repeated_ack,  ///< for a peer that has sent something again: leaves whatever was told before
    nak,           ///< a NAK or an RNR NAK for the expected packet
  };

  [[nodiscard]] Reply reply() const { return reply_; }
  [[nodiscard]] bool empty() const { return reply_ == Reply::none; }
  /// An ACK is owed, of either kind.
  [[nodiscard]] bool owes_ack() const {
    return reply_ == Reply::ack || reply_ == Reply::repeated_ack;
  }
  [[nodiscard]] bool owes_nak() const { return reply_ == Reply::nak; }
  /// Returns what the NAK says. Requires owes_nak().
  [[nodiscard]] std::uint8_t nak_syndrome() const {
    assert(owes_nak());
    return nak_syndrome_;
  }
  /// It is an ACK, and requests have not been sent before it yet.
  [[nodiscard]] bool may_wait() const { return reply_ == Reply::ack && !waited_; }
  /// It is an ACK up to `acknowledged`, and a response that has left says more.
  [[nodiscard]] bool is_needless(wire::Psn acknowledged) const {
    return reply_ == Reply::ack && wire::distance(replied_psn_, acknowledged) < 0;
  }
  /// The peer has been asked for the expected packet, which has not come since.
  [[nodiscard]] bool is_nak_outstanding() const { return nak_outstanding_; }
  /// It was told so by an RNR NAK, so that what comes behind that packet means nothing.
  [[nodiscard]] bool is_rnr_outstanding() const { return rnr_outstanding_; }
  /// The last ACK has told the peer that there are no receive requests.
  [[nodiscard]] bool is_out_of_credits() const { return out_of_credits_; }

  /// What holds between any two calls; see the fields. Verbs assert it, those of the path of each
  /// packet only the part that they could break.
  [[nodiscard]] bool is_consistent() const {
    const wire::AethKind kind = wire::Aeth{.syndrome = nak_syndrome_, .msn = 0}.kind();
    return (!rnr_outstanding_ || nak_outstanding_) &&
           (reply_ != Reply::nak || kind == wire::AethKind::nak ||
            kind == wire::AethKind::rnr_nak) &&
           (reply_ != Reply::nak || !rnr_outstanding_ || kind == wire::AethKind::rnr_nak);
  }

  /// Makes it as new: nothing is owed, and the peer's first request is to have `first_psn`.
  void reset(wire::Psn first_psn);

  /// An ACK of `kind`, which is no NAK, is owed, but where something greater is owed already.
  void acknowledge(Reply kind) {
    assert(kind == Reply::ack || kind == Reply::repeated_ack);
    reply_ = std::max(reply_, kind);
  }
  /// The expected packet is missing: a NAK asks for it. Requires !is_rnr_outstanding().
  void ask_for_missing();
  /// The expected packet cannot be executed: a NAK ends the connection.
  void refuse(wire::NakCode code);
  /// The expected packet has found no receive request: it is to come again after `timer_code`.
  void refuse_for_now(std::uint8_t timer_code);

  /// The packet `psn`, which is ahead of the expected one, has been dropped.
  void on_dropped(wire::Psn psn) {
    assert(!rnr_outstanding_);
    last_dropped_psn_ = psn;
  }
  /// The packet `psn`, which was expected, has come. A NAK that has not left is no longer right: it
  /// is to ask for what was dropped behind this packet. Where nothing was, what it covers is still
  /// to be acknowledged.
  void on_expected(wire::Psn psn) {
    if (reply_ == Reply::nak) [[unlikely]] {
      const bool more_dropped = !rnr_outstanding_ && wire::distance(psn, last_dropped_psn_) > 0;
      reply_ = more_dropped ? Reply::nak : Reply::ack;
    }
    nak_outstanding_ = reply_ == Reply::nak;
    rnr_outstanding_ = false;
  }
  /// A response, which acknowledges what came before it, makes the ACK needless.
  void drop_ack() {
    assert(reply_ == Reply::ack);
    reply_ = Reply::none;
  }
  /// Requests have been sent before the ACK. Requires may_wait().
  void defer() {
    assert(may_wait());
    waited_ = true;
  }
  /// What is owed has its turn now; the next ACK may wait again.
  void begin_turn() { waited_ = false; }
  /// What was owed has left. A NAK does not say what is held behind the packet that it names: where
  /// something `is_held`, an ACK is owed that tells it.
  void on_sent(bool is_held) {
    assert(!empty());
    reply_ = reply_ == Reply::nak && is_held ? Reply::repeated_ack : Reply::none;
  }
  /// An answer that has left acknowledges everything up to `psn`.
  void on_acknowledged(wire::Psn psn) {
    if (wire::distance(replied_psn_, psn) > 0) replied_psn_ = psn;
  }
  /// The ACK that has left says that there are receive requests, or none.
  void on_credits_told(bool none) { out_of_credits_ = none; }
  /// The peer cannot be reached, or is told something else: nothing is owed.
  void forgive() { reply_ = Reply::none; }

 private:
  wire::Psn replied_psn_;       ///< the last that an answer has acknowledged
  wire::Psn last_dropped_psn_;  ///< of the last packet that was ahead of the expected one
  Reply reply_ = Reply::none;
  std::uint8_t nak_syndrome_ = 0;  ///< of a NAK, or of an RNR NAK, if reply_ is nak
  bool waited_ = false;            ///< requests have been sent before the ACK that is owed
  bool nak_outstanding_ = false;
  bool rnr_outstanding_ = false;  ///< implies nak_outstanding_
  bool out_of_credits_ = false;
};

}  // namespace rockhopper::roce::rc
