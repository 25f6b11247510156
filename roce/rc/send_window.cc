// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/send_window.h"

#include <cassert>

namespace rockhopper::roce::rc {

void SendWindow::reset(const SendQueue& queue, wire::Psn first_psn) {
  stop(queue);
  unacked_psn_ = first_psn;
}

void SendWindow::stop(const SendQueue& queue) {
  unacked_psn_ = next_psn();
  cursor_ahead_ = sent_ahead_ = numbered_ahead_ = 0;
  cursor_ = numbered_ = queue.tail();
  assert(is_consistent(queue));
}

void SendWindow::restart(const SendQueue& queue, wire::Psn first_psn) {
  reset(queue, first_psn);
  numbered_ = queue.head();
  while (numbered_ != queue.tail() && queue.at(numbered_).is_settled()) {
    ++numbered_;
  }
  cursor_ = numbered_;
  assert(is_consistent(queue));
}

void SendWindow::number_local([[maybe_unused]] const SendQueue& queue, SendWqe& request) {
  assert(is_at_new() && request.needs_no_packet());
  request.first_psn = next_psn();
  ++numbered_;
  assert(is_consistent(queue));
}

void SendWindow::skip_local([[maybe_unused]] const SendQueue& queue) {
  assert(!is_at_new() && queue.at(cursor_).needs_no_packet());
  ++cursor_;
  assert(is_consistent(queue));
}

void SendWindow::go_back(const SendQueue& queue) {
  cursor_ = queue.head();
  cursor_ahead_ = 0;
  assert(is_consistent(queue));
}

}  // namespace rockhopper::roce::rc
