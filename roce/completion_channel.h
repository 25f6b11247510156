// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <boost/intrusive/list.hpp>

#include "roce/completion_queue.h"
#include "stack/notifier.h"

namespace rockhopper::roce {

/// Events of any number of completion queues, as ibv_comp_channel. A queue gets its events here by
/// request_notify(..., &channel). So an application that has taken all that there is arms its
/// queues, polls them once more and sleeps, on an EventFd say, until the notifier calls.
///
/// Belongs to its queues' thread. A queue that is destroyed takes its event along; the channel must
/// outlive being armed.
class CompletionChannel final : public CompletionHandler {
 public:
  /// `notifier` is not owned; null: nobody sleeps. It is called when there is an event where there
  /// was none.
  explicit CompletionChannel(stack::Notifier* notifier) : notifier_(notifier) {}
  ~CompletionChannel() override { raised_.clear(); }

  /// As ibv_get_cq_event, without waiting: returns the queue whose event is the oldest, null if
  /// none has any.
  [[nodiscard]] CompletionQueue* get_event();

  void on_completion_event(CompletionQueue& cq) override;

 private:
  stack::Notifier* notifier_;
  boost::intrusive::list<CompletionQueue, boost::intrusive::base_hook<CompletionQueueHook>,
                         boost::intrusive::constant_time_size<false>>
      raised_;
};

}  // namespace rockhopper::roce
