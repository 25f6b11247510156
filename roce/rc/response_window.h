// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "roce/qp_attributes.h"

namespace rockhopper::roce::rc {

/// The READs and atomics that have been sent since the cursor last went back and are not answered,
/// and how many of them there may be: max_rd_atomic (IBTA vol. 1, 9.7.3), and fewer for a while
/// after responses stayed away. The peer may be slow rather than out of reach and still works on
/// what it was asked before; to ask for all of it again each time would bury it. So it is one
/// request then, and twice as many after each that is answered.
class ResponseWindow {
 public:
  static constexpr std::uint32_t kMax = kMaxRdAtomic;

  [[nodiscard]] bool empty() const { return outstanding_ == 0; }
  /// Counts the PSNs that the missing responses take.
  [[nodiscard]] std::uint32_t psns() const { return psns_; }
  /// Another request may be sent. One that is not `narrowed` has only `max_rd_atomic` as a limit.
  [[nodiscard]] bool has_room(std::uint32_t max_rd_atomic, bool narrowed) const {
    return outstanding_ < std::min(max_rd_atomic, narrowed ? most_ : kMax);
  }

  /// What holds between any two calls; see the fields. Verbs assert it, those of the path of each
  /// packet only the part that they could break.
  [[nodiscard]] bool is_consistent() const {
    // Only the oldest can have all of its responses, between on_responses() and on_answered().
    return outstanding_ <= kMax && most_ >= 1 && most_ <= kMax && psns_ + 1 >= outstanding_ &&
           (psns_ == 0 || outstanding_ > 0);
  }

  /// Makes it as new.
  void reset() { *this = {}; }
  /// Nothing is outstanding: what was is sent again, or is given up.
  void forget() {
    outstanding_ = psns_ = 0;
    assert(is_consistent());
  }
  /// Responses have stayed away.
  void narrow() {
    assert(is_consistent());
    most_ = 1;
  }
  /// A request has been sent whose responses take `psns`, at least 1.
  void on_sent(std::uint32_t psns) {
    assert(psns > 0 && outstanding_ < kMax);
    ++outstanding_;
    psns_ += psns;
  }
  /// Responses that take `psns` have come to the oldest outstanding request.
  void on_responses(std::uint32_t psns) {
    assert(psns <= psns_);
    psns_ -= psns;
  }
  /// The oldest request has all of its responses. It is not `outstanding` if it was going to be
  /// sent again.
  void on_answered(bool outstanding) {
    assert(!outstanding || outstanding_ > 0);
    outstanding_ -= outstanding ? 1 : 0;
    assert(psns_ == 0 || outstanding_ > 0);
    most_ = std::min(2 * most_, kMax);
  }

 private:
  std::uint32_t outstanding_ = 0;  ///< <= kMax
  std::uint32_t psns_ = 0;         ///< 0 if none is outstanding, else at least outstanding_ - 1
  std::uint32_t most_ = kMax;      ///< 1 to kMax
};

}  // namespace rockhopper::roce::rc
