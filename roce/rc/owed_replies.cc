// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/owed_replies.h"

#include <cassert>

namespace rockhopper::roce::rc {

void OwedReplies::reset(wire::Psn first_psn) {
  *this = {};
  replied_psn_ = last_dropped_psn_ = first_psn - 1;
  assert(is_consistent());
}

void OwedReplies::ask_for_missing() {
  assert(!rnr_outstanding_);
  reply_ = Reply::nak;
  nak_syndrome_ = wire::Aeth::nak(wire::NakCode::psn_sequence_error, 0).syndrome;
  nak_outstanding_ = true;
  assert(is_consistent());
}

void OwedReplies::refuse(wire::NakCode code) {
  assert(code != wire::NakCode::psn_sequence_error);
  reply_ = Reply::nak;
  nak_syndrome_ = wire::Aeth::nak(code, 0).syndrome;
  assert(is_consistent());
}

void OwedReplies::refuse_for_now(std::uint8_t timer_code) {
  reply_ = Reply::nak;
  nak_syndrome_ = wire::Aeth::rnr_nak(timer_code, 0).syndrome;
  nak_outstanding_ = rnr_outstanding_ = true;
  assert(is_consistent());
}

}  // namespace rockhopper::roce::rc
