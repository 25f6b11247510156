// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/ami/route.h"

namespace rockhopper::ami {
namespace {

Posted posted(roce::PostResult result) {
  switch (result) {
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

Posted DcRoute::post(const roce::SendWr& wr) {
  const auto result = pool_.post_send(target_, wr);
  return result ? posted(*result) : Posted::waits;
}

Posted RcRoute::post(const roce::SendWr& wr) { return posted(qp_.post_send(wr)); }

}  // namespace rockhopper::ami
