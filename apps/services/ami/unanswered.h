// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstddef>

#include "apps/services/ami/bounded_queue.h"
#include "apps/services/ami/message.h"

namespace rockhopper::ami {

/// Messages that one side may have with the other without a reply: all of them, and those whose
/// payload is to be read. So what is kept of them is bounded, and needs no receive buffer.
inline constexpr std::size_t kMaxUnanswered = 64;
inline constexpr std::size_t kMaxAnnounced = 8;

/// The messages to a peer that it has not replied to.
class Unanswered {
 public:
  /// Another message may be sent, besides `more` that are going to be.
  [[nodiscard]] bool has_room(bool rendezvous, std::size_t more = 0) const {
    return messages_ + more < kMaxUnanswered && (!rendezvous || announced_ < kMaxAnnounced);
  }
  void on_posted(bool rendezvous) {
    assert(has_room(rendezvous));
    ++messages_;
    if (rendezvous) ++announced_;
  }
  /// It has been answered, or no answer is awaited any more.
  void on_ended(bool rendezvous) {
    assert(messages_ > 0 && (!rendezvous || announced_ > 0));
    --messages_;
    if (rendezvous) --announced_;
  }

 private:
  std::size_t messages_ = 0;   ///< <= kMaxUnanswered
  std::size_t announced_ = 0;  ///< of these, rendezvous; <= kMaxAnnounced
};

/// The replies that a peer is owed: of messages that the application has, or that are still to be
/// read, and of those that are known and go with the next SEND.
class OwedReplies {
 public:
  /// The peer may have sent so many messages more that want a reply.
  [[nodiscard]] bool accepts(std::size_t messages) const {
    return owed_ + messages <= kMaxUnanswered;
  }
  /// Nothing is to be sent now.
  [[nodiscard]] bool empty() const { return known_.empty(); }
  /// Counts those that can be sent.
  [[nodiscard]] std::size_t size() const { return known_.size(); }
  [[nodiscard]] const Reply& at(std::size_t index) const { return known_.at(index); }

  void accept(std::size_t messages) {
    assert(accepts(messages));
    owed_ += messages;
  }
  /// The reply to one of the messages is known.
  void push(const Reply& reply) {
    assert(known_.size() < owed_);
    known_.push(reply);
  }
  /// The first `count` have been sent.
  void pop(std::size_t count) {
    assert(count <= known_.size());
    known_.pop(count);
    owed_ -= count;
  }
  /// None will be sent any more.
  void forsake() { known_.clear(); }

 private:
  BoundedQueue<Reply> known_{kMaxUnanswered};
  std::size_t owed_ = 0;  ///< from known_.size() to kMaxUnanswered
};

}  // namespace rockhopper::ami
