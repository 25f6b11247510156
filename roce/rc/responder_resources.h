// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "roce/lock/snapshot_pool.h"
#include "roce/types.h"
#include "roce/wire/lkaeth.h"
#include "roce/wire/psn.h"

namespace rockhopper::roce::rc {

/// This is what one READ, atomic or lock request owes and owed.
struct ResponderResource {
  enum class Kind : std::uint8_t { read, atomic, lock };

  wire::Psn first_psn;
  std::uint32_t psn_count = 0;
  std::uint32_t next = 0;   ///< the packet to send next; `end` when all are sent
  std::uint32_t start = 0;  ///< the packet with which the current answer began
  std::uint32_t end = 0;    ///< that before which it ends: psn_count, less if a part is asked again
  std::uint32_t sent = 0;   ///< packets that have been sent at least once
  std::uint32_t msn = 0;
  std::uint32_t length = 0;
  std::uint32_t rkey = 0;
  ProtectionDomain pd{};
  std::uint16_t scope_id = 0;
  Kind kind = Kind::read;
  wire::LockStatus lock_status{};
  wire::LockCause lock_cause{};
  std::uint64_t va = 0;                   ///< locks: wire::Lkaeth::value
  std::uint64_t original = 0;             ///< atomics and locks: the value before; READs: later()
  lock::SnapshotPool::Handle snapshot{};  ///< READs of a scope

  [[nodiscard]] bool owes() const { return next != end; }
  [[nodiscard]] bool is_answered() const { return sent == psn_count; }
  /// A part of a READ behind `end` that is owed besides; an end of 0: none.
  struct Part {
    std::uint32_t start = 0;
    std::uint32_t end = 0;
  };
  [[nodiscard]] Part later() const {
    return kind == Kind::read ? std::bit_cast<Part>(original) : Part{};
  }
  /// Requires a READ, but for none.
  void set_later(Part part) {
    assert(kind == Kind::read || part.end == 0);
    if (kind == Kind::read) original = std::bit_cast<std::uint64_t>(part);
  }
  /// Where nothing is left of one part, the other has its turn.
  void go_on() {
    const Part part = later();
    if (owes() || part.end == 0) return;
    next = start = part.start;
    end = part.end;
    set_later({});
  }
  [[nodiscard]] bool contains(wire::Psn psn) const {
    const std::int32_t index = wire::distance(first_psn, psn);
    return index >= 0 && static_cast<std::uint32_t>(index) < psn_count;
  }
};

/// The responder resources of a queue pair (IBTA vol. 1, 9.7.5.1.5): a ring of the last
/// max_dest_rd_atomic requests with a response of their own, in PSN order. They stay after they
/// have been answered, for duplicates. Answers leave in that order too, from the oldest that owes
/// something on.
class ResponderResources {
 public:
  using Resource = ResponderResource;

  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] bool is_full() const { return tail_ - head_ == limit_; }
  /// One of them owes something.
  [[nodiscard]] bool owes() const { return pending_ != tail_; }
  /// Counts those from the oldest that owes something on.
  [[nodiscard]] std::uint32_t owing_count() const {
    return static_cast<std::uint32_t>(tail_ - pending_);
  }
  [[nodiscard]] std::uint8_t limit() const { return limit_; }
  /// There is a place for another one, if need be that of the oldest. A requester that keeps to the
  /// agreed number has received the whole answer to the oldest before it sends another request.
  /// What the oldest may owe then is a repetition that nobody waits for.
  [[nodiscard]] bool has_place() const {
    return tail_ - head_ < limit_ || (limit_ > 0 && at(head_).is_answered());
  }
  /// Up to `psn` all requests have been executed. Returns the last PSN before those at the end that
  /// only their responses acknowledge.
  [[nodiscard]] wire::Psn before_responses(wire::Psn psn) const;

  /// The oldest that owes something. Requires owes().
  [[nodiscard]] Resource& owing() {
    assert(owes());
    return at(pending_);
  }
  /// That whose PSNs `psn` is one of; null if it has gone.
  [[nodiscard]] Resource* find(wire::Psn psn);

  /// What holds between any two calls; see the fields. Verbs assert it, those of the path of each
  /// packet only the part that they could break.
  [[nodiscard]] bool is_consistent() const {
    return head_ <= pending_ && pending_ <= tail_ && tail_ - head_ <= limit_ &&
           (pending_ == tail_ || at(pending_).owes());
  }

  /// Changes how many there may be. Requires empty().
  void set_limit(std::uint8_t limit);
  /// The oldest goes, and what it owes. Requires that there is one. Its place stays as it is until
  /// put().
  const Resource& drop_oldest() {
    assert(!empty());
    const Resource& oldest = at(head_++);
    if (pending_ < head_) [[unlikely]] {
      pending_ = head_;
      skip_answered();
    }
    return oldest;
  }
  /// It owes its whole answer. Requires !is_full(); has_place() says whether the oldest may go for
  /// it.
  void put(const Resource& resource) {
    assert(!is_full() && resource.psn_count > 0);
    Resource& place = at(tail_++);
    place = resource;
    place.end = place.psn_count;
  }
  /// The next packet of the oldest that owes something, which is returned, has been sent.
  const Resource& on_sent();
  /// The only packet of the oldest that owes something has been sent.
  void on_sent_whole() {
    Resource& owing = this->owing();
    assert(owing.psn_count == 1 && owing.next == 0);
    owing.next = owing.sent = 1;
    skip_answered();
  }
  /// The oldest that owes something need not answer.
  void skip();
  /// `resource`, one of these, owes `count` packets from `index` on again, and before what later
  /// ones owe. What it owes already stays owed. Two parts of one READ are two answers, if the one
  /// asked for first comes first; of more, and of others, what lies between is sent too. An answer
  /// that is interrupted by it starts anew: READ responses follow each other without a gap (IBTA
  /// vol. 1, 9.4.4).
  void repeat(Resource& resource, std::uint32_t index, std::uint32_t count);
  /// Nothing is owed any more: the peer will ask again.
  void forgive();

 private:
  [[nodiscard]] Resource& at(std::uint64_t sequence) {
    return places_[static_cast<std::size_t>(sequence & mask_)];
  }
  [[nodiscard]] const Resource& at(std::uint64_t sequence) const {
    return places_[static_cast<std::size_t>(sequence & mask_)];
  }
  void skip_answered() {
    for (; pending_ != tail_; ++pending_) {
      Resource& resource = at(pending_);
      if (resource.owes()) return;
      resource.go_on();
      if (resource.owes()) return;
    }
  }

  std::unique_ptr<Resource[]> places_;  ///< a power of two, of which limit_ are used
  std::uint64_t head_ = 0;              ///< the oldest kept; <= pending_
  std::uint64_t pending_ = 0;           ///< the oldest that owes something; <= tail_
  std::uint64_t tail_ = 0;              ///< <= head_ + limit_
  std::uint32_t mask_ = 0;              ///< the places less 1
  std::uint8_t limit_ = 0;
};

}  // namespace rockhopper::roce::rc
