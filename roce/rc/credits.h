// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>

#include "roce/segmentation.h"
#include "roce/wire/aeth.h"
#include "roce/wire/psn.h"
#include "roce/work_queue.h"

namespace rockhopper::roce::rc {

/// End-to-end flow control (IBTA vol. 1, 9.7.7.2): numbers the requests, and knows up to which of
/// them the peer has receive requests. Without credits one packet still goes, asking for the
/// acknowledgement that brings new ones: a probe.
class Credits {
 public:
  /// The request that gets the next number may need a receive request that the peer has not said to
  /// have.
  [[nodiscard]] bool may_limit_next() const {
    return known_ && wire::distance(wire::Psn{limit_ssn_}, wire::Psn{next_ssn_}) > 0;
  }
  /// `request`, which is numbered, needs a receive request that the peer has not said to have.
  [[nodiscard]] bool is_limited(const SendWqe& request) const {
    // Send sequence numbers go around the same circle as PSNs.
    return known_ && takes_receive(request.opcode) &&
           wire::distance(wire::Psn{limit_ssn_}, wire::Psn{request.ssn}) > 0;
  }
  /// Packet `packet` of `request` may be sent while `in_flight` request packets are not
  /// acknowledged. A message that has begun goes on once its probe is acknowledged: whether there
  /// is a receive request for it is known then, and it may have begun before the credits were used
  /// up.
  [[nodiscard]] bool allows(const SendWqe& request, std::uint32_t packet,
                            std::uint32_t in_flight) const {
    if (!is_limited(request)) return true;
    return packet == 0 ? in_flight == 0 : !probing_;
  }

  /// Makes it as new: the peer has said nothing yet, and the first request has number 1.
  void reset() { *this = {}; }
  /// The next request gets its number.
  void number(SendWqe& request) {
    assert(next_ssn_ <= wire::kMask24);
    request.ssn = next_ssn_;
    next_ssn_ = (next_ssn_ + 1) & wire::kMask24;
  }
  /// An answer has come. Returns false if its credits do not count.
  bool take(const wire::Aeth& aeth) {
    const auto credits = wire::credit_count(aeth.credit());
    known_ = credits.has_value();
    if (known_) limit_ssn_ = (aeth.msn + *credits) & wire::kMask24;
    assert(limit_ssn_ <= wire::kMask24);
    return known_;
  }
  /// Packet `packet` of `request` has been sent.
  void on_sent(const SendWqe& request, std::uint32_t packet) {
    probing_ = packet == 0 && is_limited(request);
  }
  /// What has been sent is acknowledged, or will be sent again.
  void end_probe() { probing_ = false; }

 private:
  std::uint32_t next_ssn_ = 1;   ///< of the next request; 24 bits
  std::uint32_t limit_ssn_ = 0;  ///< requests up to it find a receive request; 24 bits
  bool known_ = false;           ///< limit_ssn_ counts; else nothing is limited
  bool probing_ = false;         ///< the packet that was sent last is a probe
};

}  // namespace rockhopper::roce::rc
