// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/completion_channel.h"

namespace rockhopper::roce {

CompletionQueue* CompletionChannel::get_event() {
  if (raised_.empty()) return nullptr;
  CompletionQueue& oldest = raised_.front();
  raised_.pop_front();
  return &oldest;
}

void CompletionChannel::on_completion_event(CompletionQueue& cq) {
  if (cq.is_linked()) {
    return;  // armed again before its event was taken: one tells all
  }
  const bool first = raised_.empty();
  raised_.push_back(cq);
  if (first && notifier_ != nullptr) notifier_->notify();
}

}  // namespace rockhopper::roce
