// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/route.h"

#include <optional>

namespace rockhopper::ami {
namespace {

Posted posted(std::optional<roce::PostResult> result) {
  if (!result) return Posted::waits;
  switch (*result) {
    case roce::PostResult::ok:
      return Posted::yes;
    case roce::PostResult::queue_full:
      return Posted::full;
    case roce::PostResult::invalid_state:
      return Posted::broken;
    default:
      return Posted::invalid;
  }
}

}  // namespace

Posted DcRoute::post(const roce::SendWr& wr) { return posted(pool_.post_send(target_, wr)); }

Posted DcRoute::ready() { return posted(pool_.prepare(target_)); }

Posted RcRoute::post(const roce::SendWr& wr) { return posted(qp_.post_send(wr)); }

Posted RcRoute::ready() {
  const roce::QpState state = qp_.state();
  if (state == roce::QpState::reset || state == roce::QpState::init ||
      state == roce::QpState::rtr) {
    return Posted::broken;
  }
  return qp_.send_queue_full() ? Posted::full : Posted::yes;
}

}  // namespace rockhopper::ami
