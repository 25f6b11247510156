// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "roce/wire/psn.h"
#include "roce/wire/shared_psn.h"
#include "roce/work_queue.h"

namespace rockhopper::roce::rc {

/// Which PSNs of a send queue are outstanding, and the cursor that moves over its requests.
///
/// A request is numbered, that is, gets its PSNs, when the cursor first comes to it. The cursor
/// returns to the oldest unacknowledged PSN when packets are lost; what is behind is then sent
/// again with the PSNs that it had. All places are counted in PSNs from the oldest unacknowledged
/// one on, which needs no arithmetic on the 24-bit circle:
///
///     unacknowledged       cursor             highest sent            next PSN
///          0        <=  cursor_ahead_  <=     sent_ahead_     <=    numbered_ahead_  <=  2^23
///
/// Calls name the send queue where they need it, so that the window has no reference to it.
/// Requests leave the queue at its head only; on_retired() is called then.
class SendWindow {
 public:
  /// PSNs that may be outstanding at once (IBTA vol. 1, 9.7.2).
  static constexpr std::uint32_t kMaxPsns = 1u << 23;

  /// Returns the PSN that the next request to be numbered will get.
  [[nodiscard]] wire::Psn next_psn() const { return unacked_psn_ + numbered_ahead_; }
  /// Returns the oldest PSN that is not acknowledged. Any thread.
  [[nodiscard]] wire::Psn unacked_psn() const { return unacked_psn_; }
  /// Returns the PSN of the packet to send next.
  [[nodiscard]] wire::Psn cursor_psn() const { return unacked_psn_ + cursor_ahead_; }
  /// Counts the PSNs from the oldest unacknowledged one to the highest ever sent, inclusive.
  [[nodiscard]] std::uint32_t sent_ahead() const { return sent_ahead_; }
  /// Counts the PSNs from the oldest unacknowledged one to the cursor: those sent since it last
  /// went back.
  [[nodiscard]] std::uint32_t cursor_ahead() const { return cursor_ahead_; }
  /// Counts the PSNs from the oldest unacknowledged one to `psn`: 2^23 or more if `psn` is before
  /// it.
  [[nodiscard]] std::uint32_t ahead(wire::Psn psn) const {
    return static_cast<std::uint32_t>(wire::distance(unacked_psn_, psn));
  }

  /// Names the request to send from.
  [[nodiscard]] std::uint64_t cursor() const { return cursor_; }
  /// Names the first request without PSNs.
  [[nodiscard]] std::uint64_t numbered() const { return numbered_; }
  /// The request at the cursor has no PSNs yet.
  [[nodiscard]] bool is_at_new() const { return cursor_ == numbered_; }
  /// There is no request to send from.
  [[nodiscard]] bool is_at_end(const SendQueue& queue) const {
    return cursor_ == std::min(queue.tail(), limit_);
  }
  /// Counts the requests from the cursor on.
  [[nodiscard]] std::uint32_t left(const SendQueue& queue) const {
    return static_cast<std::uint32_t>(std::min(queue.tail(), limit_) - cursor_);
  }
  /// The cursor went back, and what it has come to was sent before.
  [[nodiscard]] bool is_going_over() const { return cursor_ahead_ < sent_ahead_; }
  /// The next `psns` PSNs from the cursor on were all sent before.
  [[nodiscard]] bool were_sent(std::uint32_t psns) const {
    return cursor_ahead_ + psns <= sent_ahead_;
  }
  /// No request that has been numbered is left.
  [[nodiscard]] bool is_drained(const SendQueue& queue) const { return queue.head() == numbered_; }
  /// A request may get `psns` PSNs.
  [[nodiscard]] bool has_room(std::uint32_t psns) const {
    return psns <= kMaxPsns - numbered_ahead_;
  }
  /// Returns the packet to send next of `request`, which is numbered and the one at the cursor.
  [[nodiscard]] std::uint32_t packet_of(const SendWqe& request) const {
    return static_cast<std::uint32_t>(wire::distance(request.first_psn, cursor_psn()));
  }
  /// Counts the PSNs that this packet takes: that of a READ stands for all responses that are still
  /// to come.
  [[nodiscard]] std::uint32_t psns_of_packet(const SendWqe& request) const {
    return request.has_response() ? request.psn_count - packet_of(request) : 1;
  }
  /// Counts the PSNs of the front request that are acknowledged.
  [[nodiscard]] std::uint32_t acknowledged_of(const SendWqe& front) const {
    return static_cast<std::uint32_t>(wire::distance(front.first_psn, unacked_psn_));
  }

  /// What holds between any two calls; see the fields. Verbs assert it, those of the path of each
  /// packet only the part that they could break.
  [[nodiscard]] bool is_consistent(const SendQueue& queue) const {
    return queue.head() <= cursor_ && cursor_ <= numbered_ && numbered_ <= queue.tail() &&
           cursor_ahead_ <= sent_ahead_ && sent_ahead_ <= numbered_ahead_ &&
           numbered_ahead_ <= kMaxPsns &&
           (cursor_ != numbered_ || cursor_ahead_ == numbered_ahead_);
  }

  /// Nothing is outstanding; what is posted from now on begins with `first_psn`.
  void reset(const SendQueue& queue, wire::Psn first_psn);
  /// Nothing is outstanding; what is in the queue now will not be sent.
  void stop(const SendQueue& queue);
  /// Nothing is outstanding; what is in the queue now begins with `first_psn`, behind the settled
  /// requests at its head, which need no PSNs.
  void restart(const SendQueue& queue, wire::Psn first_psn);
  /// The cursor stops in front of the request `sequence`.
  void set_limit(std::uint64_t sequence) { limit_ = sequence; }

  /// Gives PSNs to `request`, the one at the cursor, which has none. Requires has_room().
  void number(const SendQueue& queue, SendWqe& request, std::uint32_t psn_count);
  /// number() and advance() for requests in a row, from the cursor on, that are sent whole. It has
  /// few variables, which a loop keeps in registers; take() then tells the window.
  class NewRequests {
   public:
    /// Requires that all numbered requests have been sent.
    explicit NewRequests(const SendWindow& window)
        : cursor_(window.cursor_),
          psn_(window.next_psn()),
          room_(kMaxPsns - window.numbered_ahead_) {
      assert(window.is_at_new() && window.cursor_ahead_ == window.numbered_ahead_ &&
             window.sent_ahead_ == window.numbered_ahead_);
    }
    /// Names the next request, and the PSN it will get.
    [[nodiscard]] std::uint64_t cursor() const { return cursor_; }
    [[nodiscard]] wire::Psn psn() const { return psn_; }
    /// The next request may get `psns` PSNs.
    [[nodiscard]] bool has_room(std::uint32_t psns) const { return psns <= room_; }
    /// Gives PSNs to `request`, the one at the cursor, which is sent. Requires has_room().
    void send(SendWqe& request, std::uint32_t psn_count) {
      assert(psn_count > 0 && has_room(psn_count));
      request.first_psn = psn_;
      request.psn_count = psn_count;
      psn_ = psn_ + psn_count;
      room_ -= psn_count;
      ++cursor_;
    }

   private:
    friend class SendWindow;
    std::uint64_t cursor_;
    wire::Psn psn_;
    std::uint32_t room_;  ///< PSNs that are left
  };
  /// The requests are sent.
  void take(const NewRequests& sent);
  /// Numbers a request that no packet carries: it takes no PSN.
  void number_local(const SendQueue& queue, SendWqe& request);
  /// The cursor moves over `psns` PSNs of `request`, the one at the cursor: they are sent, or need
  /// not be sent again.
  void advance(const SendWqe& request, std::uint32_t psns);
  /// The cursor moves over a request that no packet carries.
  void skip_local(const SendQueue& queue);
  /// The cursor returns to the oldest unacknowledged PSN, which the front request holds.
  void go_back(const SendQueue& queue);
  /// `count` more PSNs of those that were sent are acknowledged. A cursor that had gone back is
  /// overtaken.
  void acknowledge(std::uint32_t count);
  /// The front request, which is acknowledged or needs no acknowledgement, has left the queue.
  void on_retired(const SendQueue& queue);

 private:
  wire::SharedPsn unacked_psn_;       ///< all before it is acknowledged
  std::uint32_t cursor_ahead_ = 0;    ///< <= sent_ahead_; numbered_ahead_ if cursor_ == numbered_
  std::uint32_t sent_ahead_ = 0;      ///< <= numbered_ahead_
  std::uint32_t numbered_ahead_ = 0;  ///< <= kMaxPsns
  std::uint64_t cursor_ = 0;          ///< from the queue's head to numbered_
  std::uint64_t numbered_ = 0;        ///< from cursor_ to the queue's tail
  std::uint64_t limit_ = UINT64_MAX;  ///< any
};

inline void SendWindow::number([[maybe_unused]] const SendQueue& queue, SendWqe& request,
                               std::uint32_t psn_count) {
  assert(is_at_new() && numbered_ < queue.tail());
  assert(psn_count > 0 && has_room(psn_count));
  request.first_psn = next_psn();
  request.psn_count = psn_count;
  numbered_ahead_ += psn_count;
  ++numbered_;
}

inline void SendWindow::take(const NewRequests& sent) {
  assert(sent.cursor_ >= cursor_ && sent.room_ <= kMaxPsns - numbered_ahead_);
  numbered_ahead_ = kMaxPsns - sent.room_;
  cursor_ahead_ = sent_ahead_ = numbered_ahead_;
  cursor_ = numbered_ = sent.cursor_;
}

inline void SendWindow::advance(const SendWqe& request, std::uint32_t psns) {
  assert(cursor_ < numbered_);
  cursor_ahead_ += psns;
  sent_ahead_ = std::max(sent_ahead_, cursor_ahead_);
  assert(sent_ahead_ <= numbered_ahead_);
  if (cursor_psn() - request.psn_count == request.first_psn) ++cursor_;
}

inline void SendWindow::acknowledge(std::uint32_t count) {
  assert(count <= sent_ahead_);
  unacked_psn_ = unacked_psn_ + count;
  sent_ahead_ -= count;
  numbered_ahead_ -= count;
  cursor_ahead_ -= std::min(count, cursor_ahead_);
}

inline void SendWindow::on_retired(const SendQueue& queue) {
  cursor_ = std::max(cursor_, queue.head());
  assert(cursor_ <= numbered_);
}

}  // namespace rockhopper::roce::rc
